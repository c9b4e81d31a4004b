#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <b10/copy/memcpy.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/staging.hpp>
#include <b10/staging/block_pool.hpp>
#include <b10/staging/host_memory.hpp>

namespace b10::staging {

/// Bytes wait in plain host memory, page-locked when the system allows it. Use it where KV lives in
/// host memory or no GPU is there. For KV on a GPU use staging::PinnedHost: a DMA engine needs
/// memory that the driver has pinned. SlicingPolicy: in what pieces; 256 KiB by measurement
/// (docs/decisions/0007): the lane's thread copies too, so the slices in flight should stay in its
/// cache. Engine: who copies; it must reach host memory. Memory held: buffers x buffer_bytes, and
/// 64 bytes plus page rounding for each slice. See BlockPool for its states. One thread for all
/// calls.
template <b10::Slicing SlicingPolicy = slicing::Pipelined<(256u << 10), 4>,
          b10::CopyEngine Engine = copy::Memcpy>
class Host {
  using Pool = BlockPool<HostMemory>;

 public:
  using Slicing = SlicingPolicy;
  using CopyEngine = Engine;
  using View = Pool::View;
  using Quarantined = Pool::Quarantined;

  static constexpr std::string_view name = "staging::Host";
  static constexpr Placement placement = Placement::host;

  struct Options {
    std::uint64_t buffer_bytes = std::uint64_t{512} << 20;  ///< 1 or more
    std::uint64_t buffers = 2;                              ///< 1 or more; see buffers_for()
    Refill refill = Refill::background;
    Prefault prefault = Prefault::at_start;
    PageLock page_lock = PageLock::try_;
    typename Engine::Options copies{};
  };

  /// Throws Error{invalid_request}: sizes of zero, more than physical memory, too many slices;
  /// Error{refused}: the system gives or locks no more memory.
  explicit Host(Options const& options)
      : pool_({.buffer_bytes = options.buffer_bytes,
               .buffers = options.buffers,
               .slice_bytes = SlicingPolicy::slice_bytes(options.buffer_bytes)},
              options.refill, {.prefault = options.prefault, .page_lock = options.page_lock}),
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
  /// Every block is locked into physical memory.
  [[nodiscard]] bool page_locked() const noexcept { return pool_.memory().page_locked(); }
  [[nodiscard]] std::uint64_t refill_failures() const noexcept { return pool_.refill_failures(); }

 private:
  Pool pool_;
  Engine copies_;  // ends before the memory that its copies touch
};

static_assert(Staging<Host<>>, "staging::Host must model b10::Staging");

}  // namespace b10::staging
