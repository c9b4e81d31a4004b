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
#include <b10/staging/pinned_memory.hpp>

namespace b10::staging {

/// Bytes wait in host memory that the CUDA driver has pinned. Use it where KV lives on a GPU,
/// which is the reference; without a GPU use staging::Host, whose blocks are quicker made. Host
/// memory is plentiful, so that quarantined views do not starve the pool as those of a VRAM
/// staging would. SlicingPolicy: in what pieces. Engine: who copies between the GPU and this
/// memory; made from Options::copies. Memory held: buffers x buffer_bytes, and 64 bytes plus page
/// rounding for each slice, none of it on the GPU. All is pinned at the start, off the hot path.
/// What is dropped from quarantine is unpinned and replaced in the background; that may hold up
/// other CUDA calls of the process. See BlockPool for its states. The constructing thread's device
/// stays current (see DeviceScope). One thread for all calls.
template <class SlicingPolicy, class Engine>
class PinnedHost {
  static_assert(b10::Slicing<SlicingPolicy>);
  static_assert(b10::CopyEngine<Engine>);
  using Pool = BlockPool<PinnedMemory>;

 public:
  using Slicing = SlicingPolicy;
  using CopyEngine = Engine;
  using View = Pool::View;
  using Quarantined = Pool::Quarantined;

  static constexpr std::string_view name = "staging::PinnedHost";
  static constexpr Placement placement = Placement::pinned_host;

  struct Options {
    std::uint64_t buffer_bytes = std::uint64_t{512} << 20;  ///< 1 or more
    std::uint64_t buffers = 2;                              ///< 1 or more; see buffers_for()
    Refill refill = Refill::background;
    Numa numa = Numa::near_device;
    int device = -1;  ///< CUDA ordinal; -1: the current device of the constructing thread
    typename Engine::Options copies{};
  };

  /// Throws Error{invalid_request}: sizes of zero, more than physical memory, too many slices;
  /// Error{refused}: no such device, or the system gives or pins no more memory; and what the
  /// engine's constructor throws.
  explicit PinnedHost(Options const& options)
      : pool_({.buffer_bytes = options.buffer_bytes,
               .buffers = options.buffers,
               .slice_bytes = SlicingPolicy::slice_bytes(options.buffer_bytes)},
              options.refill, {.numa = options.numa, .device = options.device}),
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
  /// The device near which the memory is, as a CUDA ordinal.
  [[nodiscard]] int device() const noexcept { return pool_.memory().device(); }
  /// The node that the memory prefers; -1: none was known, asked for or allowed.
  [[nodiscard]] int numa_node() const noexcept { return pool_.memory().numa_node(); }
  /// Memory that a failed device did not let go of [bytes].
  [[nodiscard]] std::uint64_t stranded_bytes() const noexcept {
    return pool_.memory().stranded_bytes();
  }
  [[nodiscard]] std::uint64_t refill_failures() const noexcept { return pool_.refill_failures(); }

 private:
  Pool pool_;
  Engine copies_;  // ends before the memory that its copies touch
};

static_assert(Staging<PinnedHost<slicing::Pipelined<>, copy::Memcpy>>,
              "staging::PinnedHost must model b10::Staging");

}  // namespace b10::staging
