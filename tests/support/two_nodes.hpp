#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <b10/transceiver.hpp>

#include "support/held_copy.hpp"

namespace support {

inline constexpr std::uint64_t span_bytes = 256;
inline constexpr std::uint64_t slice_bytes = 1024;

/// The toy setup of the field cases: spans of 256 B, slices of 4 spans, 2 in flight; time and
/// copies move only when the test says so.
template <class Tags = b10::tag::Hashed, class Slicing = b10::slicing::Pipelined<slice_bytes, 2>,
          class Staging = b10::staging::Host<Slicing, b10::copy::Held>,
          class Completion = b10::completion::CopyEvent>
using Node = b10::Transceiver<Staging, Tags, Completion, b10::quarantine::Ttl<120>,
                              b10::transport::Loopback>;
/// The same, whose senders write the receiver's views themselves.
using SharingNode =
    Node<b10::tag::Hashed, b10::slicing::Pipelined<slice_bytes, 2>,
         b10::staging::SharedHost<b10::slicing::Pipelined<slice_bytes, 2>, b10::copy::Held>>;

using b10::copy::CopyKind;
using b10::transport::loopback::Fate;
using b10::transport::loopback::Passing;

/// Every word tells where it belongs.
inline std::byte pattern(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i / 8 * 0xd6e8feb86659fd93u;
  x ^= x >> 29;
  return static_cast<std::byte>(x >> (8 * (i % 8)));
}
inline constexpr std::byte canary{0xA5};

inline std::optional<b10::MessageKind> kind_of(Passing const& p) {
  if (auto const h = b10::wire::decode_header(p.bytes)) return h->kind;
  if (b10::wire::decode_data_header(p.bytes)) return b10::MessageKind::data;
  return std::nullopt;
}
inline std::uint32_t chunk_of(Passing const& p) {
  auto const h = b10::wire::decode_data_header(p.bytes);
  return h ? b10::to_integer(h->chunk) : 0;
}
/// For Forger: DATA of this chunk.
inline auto data_chunk(std::uint32_t chunk) {
  return [chunk](Passing const& p) {
    return kind_of(p) == b10::MessageKind::data && chunk_of(p) == chunk;
  };
}

/// A sender "a" and a receiver "b" over Loopback, turned by one thread.
template <class N = Node<>>
struct TwoNodes {
  using Network = b10::transport::Loopback::Network;
  /// One slice a buffer, so that `slices` counts views.
  static constexpr std::uint64_t buffer_bytes = N::Staging::Slicing::slice_bytes(1 << 20);

  explicit TwoNodes(std::uint64_t slices_a = 16, std::uint64_t slices_b = 16,
                    std::function<void(typename N::Config&)> adjust = {},
                    Network::Clock clock = Network::Clock::manual)
      : network(std::make_shared<Network>(clock)), adjust_(std::move(adjust)) {
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = pattern(1, i);
    for (auto const& held : {held_a, held_b}) {
      held->run_freely(CopyKind::gather);
      held->run_freely(CopyKind::scatter);
    }
    a = std::make_unique<N>(config("a", slices_a, copies_a_));
    b = std::make_unique<N>(config("b", slices_b, copies_b_));
    b->register_memory({pool.data(), pool.size()});
  }

  typename N::Config config(char const* name, std::uint64_t slices, b10::copy::Held copies) {
    typename N::Config c;
    c.name = name;
    c.staging.buffers = slices;
    c.staging.buffer_bytes = buffer_bytes;
    c.staging.refill = b10::staging::Refill::inline_;
    if constexpr (requires { c.staging.page_lock; })
      c.staging.page_lock = b10::staging::PageLock::never;
    c.staging.copies = std::move(copies);
    c.transport.network = network;
    c.transport.address = name;
    c.progress = b10::Progress::manual;
    c.recorder_events = 1 << 16;
    c.quarantine_bytes_max = c.generations_penned_max = ~std::uint64_t{0};
    c.receive_limit = b10::seconds(1'000);
    if (adjust_) adjust_(c);
    return c;
  }

  /// Turns both until nothing happens any more.
  void settle() {
    for (int quiet = 0, turns = 0; quiet < 4 && turns < 4000; ++turns) {
      unsigned work = 0;
      if (a) work += a->progress();
      if (b) work += b->progress();
      quiet = work == 0 ? quiet + 1 : 0;
    }
  }
  /// Lets time pass, in steps as a sleeping loop would see it.
  void advance(b10::Duration d) {
    network->advance(d);
    settle();
  }

  b10::PeerId connect() {
    auto c = a->begin_connect("b", b10::seconds(1));
    settle();
    if (!c.peer()) throw std::runtime_error("connect: " + c.error());
    return *c.peer();
  }

  /// `count` spans from block `first` on, at the same offset on both sides.
  [[nodiscard]] std::vector<b10::LocalSpan> sources(std::size_t first, std::size_t count) {
    std::vector<b10::LocalSpan> out;
    for (std::size_t i = first; i < first + count; ++i)
      out.push_back({source.data() + i * span_bytes, span_bytes});
    return out;
  }
  [[nodiscard]] std::vector<b10::LocalSpan> blocks(std::size_t first, std::size_t count) {
    std::vector<b10::LocalSpan> out;
    for (std::size_t i = first; i < first + count; ++i)
      out.push_back({pool.data() + i * span_bytes, span_bytes});
    return out;
  }
  static std::vector<b10::RemoteSpan> remote(std::vector<b10::LocalSpan> const& spans) {
    std::vector<b10::RemoteSpan> out;
    for (auto const& s : spans)
      out.push_back({reinterpret_cast<std::uint64_t>(s.address), s.bytes, s.device});
    return out;
  }
  [[nodiscard]] b10::Grant grant(std::uint64_t request, std::size_t first, std::size_t count,
                                 b10::Duration limit = b10::seconds(10'000)) {
    return b->grant(b10::RequestId{request}, blocks(first, count), limit);
  }
  b10::Transfer write(b10::PeerId peer, std::uint64_t request, std::size_t first, std::size_t count,
                      b10::Duration deadline = b10::seconds(1), b10::HostEvent ready = {}) {
    auto const from = sources(first, count);
    auto const to = remote(blocks(first, count));
    return a->write(peer, {.request = b10::RequestId{request},
                           .sources = from,
                           .destinations = to,
                           .ready = ready,
                           .deadline = deadline});
  }
  /// True if exactly the blocks in [first, first + count) hold the source's bytes and all others
  /// the canary.
  [[nodiscard]] bool exactly(std::size_t first, std::size_t count) const {
    for (std::size_t i = 0; i < pool.size(); ++i) {
      bool const in = i / span_bytes >= first && i / span_bytes < first + count;
      if (pool[i] != (in ? source[i] : canary)) return false;
    }
    return true;
  }
  [[nodiscard]] bool untouched() const { return exactly(0, 0); }

  std::shared_ptr<Network> network;
  std::vector<std::byte> source = std::vector<std::byte>(1024 * span_bytes);
  std::vector<std::byte> pool = std::vector<std::byte>(1024 * span_bytes, canary);

 private:
  b10::copy::Held copies_a_{};
  b10::copy::Held copies_b_{};
  std::function<void(typename N::Config&)> adjust_;

 public:
  std::shared_ptr<b10::copy::HeldControl> held_a = copies_a_.control();
  std::shared_ptr<b10::copy::HeldControl> held_b = copies_b_.control();
  std::unique_ptr<N> a;
  std::unique_ptr<N> b;
};

inline bool adds_up(b10::Metrics const& m) {
  return m.staging_free.get() + m.staging_leased.get() + m.staging_quarantined.get() +
             m.staging_abandoned.get() ==
         m.staging_total.get();
}

}  // namespace support
