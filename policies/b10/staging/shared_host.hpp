#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/copy/memcpy.hpp>
#include <b10/shared_views.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/staging.hpp>
#include <b10/staging/block_pool.hpp>
#include <b10/staging/shared_memory.hpp>
#include <b10/staging/shared_segment.hpp>

namespace b10::staging {

/// Another process's staging segment, mapped here and pinned as this process's copy engine needs
/// it: the blocks there are from the start at once, later ones when they are first used. One
/// thread.
template <class Pinning>
class SharedReach {
 public:
  SharedReach(SegmentMapping mapping, SegmentOffer const& offer, typename Pinning::Options pinning)
      : mapping_(std::move(mapping)),
        pinning_(pinning),
        block_bytes_(offer.block_bytes),
        pinned_((mapping_.bytes() - segment_head_bytes) / block_bytes_) {
    if (offer.blocks == 0) return;
    pin(0, offer.blocks);
  }
  SharedReach(SharedReach&&) noexcept = default;
  SharedReach& operator=(SharedReach&&) = delete;
  ~SharedReach() {
    if (!mapping_.mapped()) return;  // moved from
    for (auto* const at : pins_) pinning_.unpin(at);
  }

  /// Null unless all of it lies in one block. Throws Error when it cannot be pinned.
  [[nodiscard]] std::byte* at(std::uint64_t place, std::uint64_t bytes) {
    if (place < segment_head_bytes || place >= mapping_.bytes()) return nullptr;
    auto const block = (place - segment_head_bytes) / block_bytes_;
    auto const offset = (place - segment_head_bytes) % block_bytes_;
    if (block >= pinned_.size() || bytes > block_bytes_ - offset) return nullptr;
    if (!pinned_[block]) pin(block, 1);
    return mapping_.data() + place;
  }

 private:
  void pin(std::uint64_t first, std::uint64_t count) {
    auto* const at = mapping_.data() + segment_head_bytes + first * block_bytes_;
    pinning_.pin(at, count * block_bytes_);
    pins_.push_back(at);
    for (std::uint64_t i = first; i < first + count; ++i) pinned_[i] = true;
  }

  SegmentMapping mapping_;
  Pinning pinning_;
  std::uint64_t block_bytes_;
  std::vector<bool> pinned_;  // per block
  std::vector<std::byte*> pins_{};
};

/// Bytes wait in host memory that peers on the same host map and write themselves: the sender's
/// gather lands in the receiver's view, and only control goes over the wire. Use it where prefill
/// and decode share a host; it is as fast as the copies alone. A peer that cannot prove to be on
/// this host (same running system, same pid namespace and user, a secret read through the segment)
/// gets its payloads by the transport as with staging::Host, and explain() says why. Every rule of
/// quarantine holds: a view granted to a failed transfer leaves circulation, its memory goes back
/// to the system and its place is never used again; a sender that dies or stops can only spoil the
/// view it was given. What one trusts: a process with the shared key writes only where it was told
/// to. SlicingPolicy: in what pieces. Engine: who copies. Pinning: NoPinning for engines on the
/// CPU, CudaPinning for CUDA engines. Memory held: as staging::Host, and address space for `lives`
/// times as much. One thread for all calls.
template <b10::Slicing SlicingPolicy = slicing::Pipelined<(256u << 10), 4>,
          b10::CopyEngine Engine = copy::Memcpy, class Pinning = NoPinning>
class SharedHost {
  using Pool = BlockPool<SharedMemory<Pinning>>;

 public:
  using Slicing = SlicingPolicy;
  using CopyEngine = Engine;
  using View = typename Pool::View;
  using Quarantined = typename Pool::Quarantined;
  using Reach = SharedReach<Pinning>;

  static constexpr std::string_view name = "staging::SharedHost";
  static constexpr Placement placement = Placement::host;
  static constexpr bool wire_reaches = true;

  struct Options {
    std::uint64_t buffer_bytes = std::uint64_t{512} << 20;  ///< 1 or more
    std::uint64_t buffers = 2;                              ///< 1 or more; see buffers_for()
    Refill refill = Refill::background;
    /// How often each block can be replaced after a failure, 1 or more; costs address space only.
    std::uint64_t lives = 64;
    bool share = true;  ///< false: payloads by the transport, as if each peer were on another host
    typename Pinning::Options pinning{};
    typename Engine::Options copies{};
  };

  /// Throws Error{invalid_request}: sizes of zero, more than physical memory, too many slices;
  /// Error{refused}: the system gives no more memory.
  explicit SharedHost(Options const& options)
      : pinning_(Pinning::resolved(options.pinning)),
        share_(options.share),
        pool_(size_of(options), options.refill, memory_of(options)),
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

  /// Empty: this node shares nothing.
  [[nodiscard]] std::string offer() const {
    return share_ ? encode(pool_.memory().offer()) : std::string();
  }
  [[nodiscard]] std::optional<Reach> reach(std::string_view offer, std::string& why) const {
    auto const known = decode_offer(offer);
    if (!share_ || !known) {
      why = !share_         ? "this node shares no staging (Options::share)"
            : offer.empty() ? "it shares no staging"
                            : "its offer of staging is not understood";
      return std::nullopt;
    }
    auto mapping = map_segment(*known, why);
    if (!mapping) return std::nullopt;
    try {
      return std::optional<Reach>(std::in_place, std::move(*mapping), *known, pinning_);
    } catch (std::exception const& e) {  // not pinned, or no memory: the transport still works
      why = e.what();
      return std::nullopt;
    }
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
  static typename SharedMemory<Pinning>::Options memory_of(Options const& o) {
    if (o.lives == 0 || o.lives > 4096)
      throw Error(Reason::invalid_request,
                  "Options::lives is " + std::to_string(o.lives) + ", allowed are 1 to 4096");
    auto const size = size_of(o);
    return {.block_bytes = static_cast<std::size_t>(header_room + size.slice_bytes),
            .blocks = count_blocks(size),
            .lives = o.lives,
            .pinning = o.pinning};
  }

  typename Pinning::Options pinning_;
  bool share_;
  Pool pool_;
  Engine copies_;  // ends before the memory that its copies touch
};

static_assert(SharesViews<SharedHost<>>, "staging::SharedHost must model b10::SharesViews");

}  // namespace b10::staging
