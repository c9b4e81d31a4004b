#pragma once

#include <unistd.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/staging.hpp>
#include <b10/staging/lease.hpp>
#include <b10/staging/refiller.hpp>

namespace b10::staging {

/// How large a pool is. Its blocks hold one slice each: buffers x floor(buffer_bytes / slice_bytes)
/// of them.
struct PoolSize {
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  std::uint64_t slice_bytes = 0;  ///< 1..buffer_bytes
};

/// Each block is a mapping of its own, and the system allows a process some 65,530 of them.
inline constexpr std::uint64_t blocks_max = 32'768;

/// Number of blocks. Throws Error{invalid_request} naming value, limit and knob.
[[nodiscard]] inline std::uint64_t count_blocks(PoolSize size) {
  auto const refuse = [](std::string const& what) { throw Error(Reason::invalid_request, what); };
  auto const [buffer, buffers, slice] = size;
  if (buffer == 0 || buffers == 0) {
    refuse("staging of " + std::to_string(buffers) + " buffers of " + std::to_string(buffer) +
           " bytes holds nothing: set buffers and buffer_bytes to 1 or more");
  }
  if (slice == 0 || slice > buffer) {
    refuse("a slice of " + std::to_string(slice) + " bytes must be 1 to buffer_bytes (" +
           std::to_string(buffer) + ")");
  }
  auto const physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (buffers > physical / buffer) {
    refuse("staging larger than memory: " + std::to_string(buffers) + " buffers of " +
           std::to_string(buffer) + " bytes, but the machine has " + std::to_string(physical) +
           " bytes: lower buffers or buffer_bytes");
  }
  auto const blocks = buffers * (buffer / slice);
  if (blocks > blocks_max) {
    refuse("staging of " + std::to_string(blocks) + " slices exceeds " +
           std::to_string(blocks_max) + ": use larger slices, or lower buffers or buffer_bytes");
  }
  return blocks;
}

/// The pool behind the host staging policies. The unit is a block, one view each: header_room bytes
/// and one slice, in a mapping of its own, so that a block which was in quarantine can go back to
/// the system alone and be replaced. Acquire and release take no lock and ask the system for
/// nothing. Blocks are reused last in, first out (cache). Memory: blocks x (64 + slice_bytes),
/// rounded up to pages. Dropped blocks are replaced up to the configured number; abandoned ones
/// too, as long as the pool then holds no more than twice that number. One thread, the same for all
/// calls; the background thread is the pool's own and ends with it.
template <BlockMemory Memory>
class BlockPool {
 public:
  using View = Lease<&BlockBook::leased>;
  using Quarantined = Lease<&BlockBook::quarantined>;

  /// Makes all blocks. Throws Error naming value, limit and knob; nothing is left behind then.
  BlockPool(PoolSize size, Refill refill, typename Memory::Options memory)
      : blocks_(static_cast<std::size_t>(count_blocks(size))),
        book_(std::make_unique<BlockBook>()) {
    book_->slice_bytes = static_cast<std::size_t>(size.slice_bytes);
    book_->free.reserve(blocks_);
    book_->abandoned.reserve(2 * blocks_);
    refiller_ = std::make_unique<Refiller<Memory>>(memory, header_room + book_->slice_bytes,
                                                   blocks_, refill);
    try {
      for (std::size_t i = 0; i < blocks_; ++i) book_->free.push_back(refiller_->allocate());
    } catch (...) {
      for (auto* block : book_->free) refiller_->free(block);
      throw;
    }
  }

  BlockPool(BlockPool&&) noexcept = default;
  BlockPool& operator=(BlockPool&&) = delete;

  /// All views and quarantined blocks must have come back: their worker may still write into them.
  /// If some have not it asserts; without asserts their memory, and the book they refer to, stay
  /// for ever.
  ~BlockPool() {
    if (!book_) return;  // moved from
    refiller_->stop();
    for (auto* block : book_->free) refiller_->free(block);
    if (book_->leased + book_->quarantined == 0) return;
    assert(false && "a staging pool was destroyed before its views");
    book_->abandoned.clear();  // keeps its capacity: late views end up there
    book_.release();
  }

  /// A view, or nothing when the pool has none for this use now. Receives leave the last eighth (1
  /// block or more) of the configured blocks to sends; a pool of one block leaves none.
  [[nodiscard]] std::optional<View> try_acquire(Use use) noexcept {
    auto const kept = use == Use::receive ? kept_for_sends() : 0;
    if (book_->free.size() <= kept) {
      if (!refiller_->has_fresh()) return std::nullopt;
      refiller_->fetch(book_->free);
      if (book_->free.size() <= kept) return std::nullopt;
    }
    auto* const block = book_->free.back();
    book_->free.pop_back();
    return View(*book_, block);
  }

  /// Nothing touches the view any more: it can be leased again.
  void release(View&& view) noexcept { put_back(take(view)); }
  /// Something may still touch it: out of circulation until drop, recycle or abandon.
  [[nodiscard]] Quarantined quarantine(View&& view) noexcept {
    return Quarantined(*book_, take(view));
  }
  /// Its worker is gone: unmaps it, at once or by the background thread; the total shrinks until a
  /// refill.
  void drop(Quarantined&& held) noexcept {
    if (auto* const block = take(held)) refiller_->give_back(block);
  }
  /// Back into circulation as it is: for policy sets that show why one must not.
  void recycle(Quarantined&& held) noexcept { put_back(take(held)); }
  /// Nobody can say when it will be quiet: stays mapped for the life of the process, because a copy
  /// engine may outlive the pool, and is never leased again.
  void abandon(Quarantined&& held) noexcept {
    if (auto* const block = take(held)) book_->abandoned.push_back(block);
  }

  /// Takes in fresh blocks and asks for those that lack; inline it makes at most one a call. Cheap
  /// when nothing lacks, and after a failed refill until it is time to try again.
  void maintain() noexcept {
    if (auto const lacking = missing(); lacking > 0) refiller_->request(lacking);
    if (refiller_->has_fresh()) refiller_->fetch(book_->free);
  }

  [[nodiscard]] StagingGauges gauges() const noexcept {
    auto const bytes = [&](std::size_t n) { return std::uint64_t{n} * book_->slice_bytes; };
    auto const& b = *book_;
    return {.free = bytes(b.free.size()),
            .leased = bytes(b.leased),
            .quarantined = bytes(b.quarantined),
            .abandoned = bytes(b.abandoned.size()),
            .total = bytes(b.free.size() + b.leased + b.quarantined + b.abandoned.size())};
  }
  [[nodiscard]] std::uint64_t slice_bytes() const noexcept { return book_->slice_bytes; }
  /// Times a block could not be replaced because the system had no memory.
  [[nodiscard]] std::uint64_t refill_failures() const noexcept { return refiller_->failures(); }
  [[nodiscard]] Memory const& memory() const noexcept { return refiller_->memory(); }

 private:
  [[nodiscard]] std::size_t kept_for_sends() const noexcept {
    return blocks_ == 1 ? 0 : blocks_ < 8 ? 1 : blocks_ / 8;
  }

  /// Blocks to be made: abandoned ones are replaced while no more than twice the configured number
  /// is mapped.
  [[nodiscard]] std::size_t missing() const noexcept {
    auto const& b = *book_;
    auto const usable = b.free.size() + b.leased + b.quarantined;
    auto const room = 2 * blocks_ - b.abandoned.size();
    auto const target = room < blocks_ ? room : blocks_;
    return usable < target ? target - usable : 0;
  }

  template <class L>
  [[nodiscard]] std::byte* take(L& lease) noexcept {
    assert(lease.data() && "this view has been returned before");
    assert(lease.book_ == book_.get() && "this view belongs to another pool");
    return lease.take();
  }

  void put_back(std::byte* block) noexcept {
    if (block) book_->free.push_back(block);
  }

  std::size_t blocks_;
  std::unique_ptr<BlockBook> book_;  // on the heap: views refer to it while the pool moves
  std::unique_ptr<Refiller<Memory>> refiller_{};
};

}  // namespace b10::staging
