#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <b10/copy/peer.hpp>
#include <b10/shared_views.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/staging.hpp>
#include <b10/staging/block_pool.hpp>
#include <b10/staging/device_memory.hpp>
#include <b10/staging/device_reach.hpp>

namespace b10::staging {

/// Bytes wait in GPU memory that peers on the same host write themselves, over NVLink where there
/// is one: seven times as fast as pinned host memory. Use it between GPUs of one host that reach
/// each other. Views hold no bytes of the wire, so a peer that cannot be reached is not served: its
/// transfers are refused before READY, and explain() says why. A plain UCX cannot carry such views
/// either; B10 does not ask it to. What it gives up: GPU memory is dear and, once a peer has mapped
/// it, cannot go back to the driver. So what quarantine drops is lost until the process ends, and
/// after `lives` - 1 replacements of every block the pool shrinks and transfers fail fast with
/// quarantine_full. Memory held on the GPU: lives x buffers x buffer_bytes. One thread for all
/// calls.
template <b10::Slicing SlicingPolicy = slicing::Pipelined<(std::uint64_t{32} << 20), 4>,
          b10::CopyEngine Engine = copy::Peer>
class Device {
  using Pool = BlockPool<DeviceMemory>;

 public:
  using Slicing = SlicingPolicy;
  using CopyEngine = Engine;
  using View = Pool::View;
  using Quarantined = Pool::Quarantined;
  using Reach = DeviceReach;

  static constexpr std::string_view name = "staging::Device";
  static constexpr Placement placement = Placement::device;
  static constexpr bool wire_reaches = false;

  struct Options {
    std::uint64_t buffer_bytes = std::uint64_t{256} << 20;  ///< 1 or more
    std::uint64_t buffers = 1;                              ///< 1 or more; see buffers_for()
    Refill refill = Refill::background;
    std::uint64_t lives = 2;  ///< how often each block can be had, 1 to 64; costs GPU memory
    int device = -1;          ///< CUDA ordinal; -1: the current device of the constructing thread
    typename Engine::Options copies{};
  };

  /// Throws Error{invalid_request}: sizes of zero or out of range; Error{refused}: no such device,
  /// or it has no more memory.
  explicit Device(Options const& options)
      : pool_(size_of(options), options.refill, memory_of(options)),
        copies_(options.copies, pool_.slice_bytes()) {}

  [[nodiscard]] std::optional<View> try_acquire(Use use) noexcept { return pool_.try_acquire(use); }
  void release(View&& view) noexcept { pool_.release(std::move(view)); }
  [[nodiscard]] Quarantined quarantine(View&& view) noexcept {
    return pool_.quarantine(std::move(view));
  }
  void drop(Quarantined&& held) noexcept { pool_.drop(std::move(held)); }
  void recycle(Quarantined&& held) noexcept { pool_.recycle(std::move(held)); }
  void abandon(Quarantined&& held) noexcept { pool_.abandon(std::move(held)); }
  void maintain() noexcept { pool_.maintain(); }

  [[nodiscard]] StagingGauges gauges() const noexcept { return pool_.gauges(); }
  [[nodiscard]] std::uint64_t slice_bytes() const noexcept { return pool_.slice_bytes(); }
  [[nodiscard]] Engine& copies() noexcept { return copies_; }
  [[nodiscard]] std::uint64_t refill_failures() const noexcept { return pool_.refill_failures(); }

  [[nodiscard]] std::string offer() const { return encode(pool_.memory().offer()); }
  [[nodiscard]] std::optional<Reach> reach(std::string_view offer, std::string& why) const {
    auto const known = decode_device_offer(offer);
    if (!known) {
      why = offer.empty() ? "it shares no staging" : "its offer of staging is not understood";
      return std::nullopt;
    }
    return DeviceReach::open(*known, pool_.memory().device(), why);
  }
  [[nodiscard]] std::uint64_t place(View const& view) const noexcept {
    return pool_.memory().place(view.data()) + header_room;
  }

 private:
  static PoolSize size_of(Options const& o) {
    return {.buffer_bytes = o.buffer_bytes,
            .buffers = o.buffers,
            .slice_bytes = SlicingPolicy::slice_bytes(o.buffer_bytes)};
  }
  static DeviceMemory::Options memory_of(Options const& o) {
    if (o.lives == 0 || o.lives > 64)
      throw Error(Reason::invalid_request,
                  "Options::lives is " + std::to_string(o.lives) + ", allowed are 1 to 64");
    auto const size = size_of(o);
    return {.device = o.device,
            .block_bytes = static_cast<std::size_t>(header_room + size.slice_bytes),
            .blocks = count_blocks(size),
            .lives = o.lives};
  }

  Pool pool_;
  Engine copies_;  // ends before the memory that its copies touch
};

static_assert(SharesViews<Device<>>, "staging::Device must model b10::SharesViews");

}  // namespace b10::staging
