#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include <b10/staging/block_memory.hpp>

namespace b10::staging {

/// Room in front of each slice for the header of a DATA message [bytes].
inline constexpr std::size_t header_room = 64;

/// Where each block of a pool is. One thread.
struct BlockBook {
  std::size_t slice_bytes = 0;
  std::size_t leased = 0;       // blocks
  std::size_t quarantined = 0;  // blocks
  std::vector<std::byte*> free{};
  std::vector<std::byte*> abandoned{};
};

template <BlockMemory Memory>
class BlockPool;

/// One block that has left the free list, counted by one gauge of its pool's book. Move-only, so
/// that it can be returned only once. It must go back to its pool through one of the pool's calls:
/// one that is destroyed instead is a bug of its holder, and asserts; without asserts the block is
/// abandoned, because nobody can say who still touches it.
template <std::size_t BlockBook::*Gauge>
class Lease {
 public:
  Lease(Lease&& other) noexcept
      : book_(other.book_), block_(std::exchange(other.block_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    lose();
    book_ = other.book_;
    block_ = std::exchange(other.block_, nullptr);
    return *this;
  }
  ~Lease() { lose(); }

  /// Start of the block: header_room bytes, then the slice. Null once moved from.
  [[nodiscard]] std::byte* data() const noexcept { return block_; }
  /// Bytes from data() on that may be used.
  [[nodiscard]] std::size_t bytes() const noexcept { return header_room + book_->slice_bytes; }

 private:
  template <BlockMemory Memory>
  friend class BlockPool;

  Lease(BlockBook& book, std::byte* block) noexcept : book_(&book), block_(block) {
    if (block) ++(book.*Gauge);
  }

  /// Ends this lease; the caller puts the block where it belongs. Null if moved from.
  [[nodiscard]] std::byte* take() noexcept {
    if (block_) --(book_->*Gauge);
    return std::exchange(block_, nullptr);
  }

  void lose() noexcept {
    if (!block_) return;
    assert(false && "a staging view was destroyed without release or quarantine");
    book_->abandoned.push_back(take());
  }

  BlockBook* book_;
  std::byte* block_;
};

}  // namespace b10::staging
