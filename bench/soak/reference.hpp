// The reference policy set under faults: real transceivers, a short quarantine.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <b10/transceiver.hpp>

#include "plane.hpp"
#include "watched.hpp"

namespace b10::bench {

using Slices = slicing::Pipelined<chunk_bytes, 4>;
template <class StagingPolicy>
using Soaked =
    Transceiver<StagingPolicy, tag::Hashed, completion::CopyEvent, quarantine::TtlMs<1500>>;
using SendingNode = Soaked<staging::Host<Slices>>;
using ReceivingNode = Soaked<Watched<staging::Host<Slices>>>;

template <class Node>
[[nodiscard]] typename Node::Config soak_config(std::string name, transport::ucx::Wire wire) {
  typename Node::Config c;
  c.name = std::move(name);
  c.staging.buffer_bytes = chunk_bytes;
  c.transport.key = "a key for soaking only";
  c.transport.wire = wire;
  c.receive_limit = deadline;
  c.generations_penned_max = 1024;  // it kills far more often than any cluster does
  return c;
}

inline constexpr std::uint64_t block = 64 << 10;

[[nodiscard]] inline std::vector<LocalSpan> source_blocks(std::byte* base) {
  std::vector<LocalSpan> out;
  for (std::uint64_t at = 0; at < transfer_bytes; at += block) out.push_back({base + at, block});
  return out;
}
/// The same blocks in reverse order.
template <class Span, class Address>
[[nodiscard]] std::vector<Span> destination_blocks(Address base) {
  std::vector<Span> out;
  for (auto at = transfer_bytes; at > 0; at -= block) out.push_back({base + (at - block), block});
  return out;
}
[[nodiscard]] inline bool landed_right(std::byte const* at, std::uint64_t request) {
  std::uint64_t offset = 0;
  for (auto const& s : destination_blocks<RemoteSpan>(std::uint64_t{0})) {
    if (!contents_of(request).matches(at + s.address, offset, s.bytes)) return false;
    offset += s.bytes;
  }
  return true;
}

/// Serves one sender until the run is over: offers a transfer, judges its outcome and its bytes.
/// Two destinations in turn; each must still hold what landed there when its turn comes again.
inline void serve_sender(ReceivingNode& node, Plane& plane, std::size_t index, std::byte* memory) {
  Slot& slot = plane.slots[index];
  Counts& counts = plane.counts;
  std::array<std::uint64_t, 2> held{};
  for (std::uint64_t n = 1; !plane.stop; ++n) {
    std::uint64_t const request = n * senders + index + 1;
    std::byte* const to = memory + n % 2 * transfer_bytes;
    if (held[n % 2] != 0 && !landed_right(to, held[n % 2])) ++counts.corrupt;
    std::memset(to, 0xcc, transfer_bytes);
    held[n % 2] = 0;
    auto grant = node.grant(RequestId{request}, destination_blocks<LocalSpan>(to), seconds(300));
    slot.offer(request, to);
    std::optional<Outcome> outcome;
    while (!outcome && !plane.stop) outcome = grant.next(milliseconds(50));
    slot.request = 0;
    if (outcome && outcome->ok()) {
      held[n % 2] = request;
      ++(landed_right(to, request) ? counts.landed : counts.corrupt);
    } else if (outcome) {
      ++counts.failed;
      note_overrun(slot, counts);
    }
    if (!grant.revoke(seconds(2))) ++counts.unproven;
  }
}

inline void reference_receiver(Plane& plane, transport::ucx::Wire wire, Duration run_time) {
  auto config = soak_config<ReceivingNode>("receiver", wire);
  config.staging.buffers = 128;
  config.staging.counts = &plane.counts;
  ReceivingNode node(std::move(config));
  std::vector<std::byte> memory(senders * 2 * transfer_bytes);
  node.register_memory({memory.data(), memory.size()});
  auto const address = node.address();
  std::copy_n(address.c_str(), std::min(address.size() + 1, plane.listen.size()),
              plane.listen.begin());
  plane.ready = true;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < senders; ++i) {
    threads.emplace_back(serve_sender, std::ref(node), std::ref(plane), i,
                         memory.data() + i * 2 * transfer_bytes);
  }
  std::this_thread::sleep_for(std::chrono::nanoseconds(run_time.ns / 4));
  plane.counts.memory_early = resident_bytes();
  for (auto& t : threads) t.join();
  plane.counts.memory_end = resident_bytes();
  // What is in quarantine comes out and is counted.
  for (int i = 0; i < 60 && node.metrics().staging_quarantined.get() > 0; ++i) usleep(100'000);
  plane.counts.generations = node.metrics().links_opened.get();
}

/// One sender process; it lives until it is killed.
inline void reference_sender(Plane& plane, transport::ucx::Wire wire, std::size_t index) {
  auto config = soak_config<SendingNode>("sender " + std::to_string(index), wire);
  config.staging.buffers = 32;
  config.transport.net_device = "lo";
  config.transport.listen.clear();
  SendingNode node(std::move(config));
  std::vector<std::byte> source(transfer_bytes);
  auto const from = source_blocks(source.data());
  Slot& slot = plane.slots[index];
  std::optional<PeerId> peer;
  while (!peer) {
    // A predecessor that was killed keeps the name until its end has been noticed.
    auto const c = node.begin_connect(plane.listen.data(), seconds(1));
    while (!c.done()) usleep(500);
    peer = c.peer();
  }
  for (std::uint64_t last = 0;;) {
    auto const request = slot.request.load();
    if (request == 0 || request == last) {
      usleep(200);
      continue;
    }
    contents_of(request).fill(source.data(), 0, source.size());
    auto const to = destination_blocks<RemoteSpan>(slot.address.load());
    slot.started_at = static_cast<std::uint64_t>(steady_now().ns);
    auto const transfer = node.write(
        *peer,
        {.request = RequestId{request}, .sources = from, .destinations = to, .deadline = deadline});
    auto const outcome = transfer.wait(seconds(30));
    if (outcome && outcome->ok()) {
      last = request;
      ++plane.counts.claimed;
    }
    while (!transfer.wait_sources_released(seconds(1))) {
    }
  }
}

}  // namespace b10::bench
