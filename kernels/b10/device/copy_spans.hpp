#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <b10/device/digest.hpp>

namespace b10::device {

/// Where the contiguous side of a copy lies; the scattered side is always VRAM.
enum class Reach : std::uint8_t {
  scratch,  ///< VRAM of the same device: all SMs for a moment, at HBM speed
  pinned,   ///< pinned host memory: as few SMs as saturate PCIe, for the whole transfer
};

/// What a kernel reads of a table of pieces. A piece is a run of scattered bytes that is also a run
/// of the contiguous side. Each row holds the piece's origin, which is its address less its offset
/// on the contiguous side: byte `c` of the contiguous side lies at origin + c. Uniform pieces take
/// 8 B a row [origin]; piece i ends at (i + 1) * piece_bytes - skip, the last one at `bytes`. Mixed
/// pieces take 16 B a row [origin, end].
struct Layout {
  void const* rows = nullptr;  ///< read by the host at launch and by the device until the copy ends
  std::uint32_t pieces = 0;
  std::uint64_t piece_bytes = 0;  ///< 0: mixed
  std::uint64_t skip = 0;   ///< uniform: bytes cut off the first piece's head, below piece_bytes
  std::uint64_t bytes = 0;  ///< of all pieces: the length of the contiguous side

  [[nodiscard]] constexpr std::size_t table_bytes() const noexcept {
    return std::size_t{pieces} * (piece_bytes != 0 ? 8 : 16);
  }
};

/// Writes the table of one copy into memory that it is given, in one pass, without allocating; 8 B
/// a piece as long as all have one size (the first may have lost its head and the last its tail),
/// else 16 B. Neighbours in memory become one piece where that makes the table smaller. Use one for
/// each copy; the memory stays the caller's, which keeps it untouched until the copy's event has
/// fired. One thread. Nothing fails: what does not fit is a wrong program and asserts.
class SpanTable {
 public:
  /// [bytes] of memory that always suffice for so many pieces.
  [[nodiscard]] static constexpr std::size_t bytes_max(std::size_t pieces) noexcept {
    return 2 * sizeof(std::uint64_t) * pieces;
  }

  /// `memory` is aligned to 16 and, unless every table in it is small enough to travel with its
  /// launch (value_bytes_max), pinned and mapped at its own address.
  SpanTable(std::byte* memory, std::size_t capacity_bytes) noexcept
      : words_(reinterpret_cast<std::uint64_t*>(memory)), capacity_bytes_(capacity_bytes) {
    assert(reinterpret_cast<std::uintptr_t>(memory) % 16 == 0);
  }

  /// Appends a piece of VRAM; nothing if it is empty. At most 2^32 - 1 pieces.
  void add(std::byte* address, std::uint64_t bytes) noexcept {
    if (bytes == 0) return;
    // Equal origins of two pieces in a row mean that they are neighbours in memory too.
    std::uint64_t const origin = reinterpret_cast<std::uintptr_t>(address) - bytes_;
    // Only when a piece follows do we know that the one before was not the last.
    if (!mixed_ && pieces_ >= 2 && (last_ != piece_bytes_ || first_ > piece_bytes_)) mix();
    if (mixed_) {
      add_mixed(origin, bytes);
      return;
    }
    assert(bytes_max(pieces_ + std::size_t{1}) <= capacity_bytes_);
    runs_ += pieces_ == 0 || words_[pieces_ - 1] != origin;
    words_[pieces_] = origin;
    if (pieces_ == 0) first_ = bytes;
    if (pieces_ == 1) piece_bytes_ = bytes;
    last_ = bytes;
    bytes_ += bytes;
    ++pieces_;
  }

  /// What to launch with. Add nothing afterwards.
  [[nodiscard]] Layout finish() noexcept {
    if (!mixed_ && pieces_ < 3) piece_bytes_ = std::max(first_, last_);
    if (!mixed_ && (first_ > piece_bytes_ || last_ > piece_bytes_)) mix();
    std::uint64_t* rows = words_;
    if (!mixed_ && 2 * std::uint64_t{runs_} < pieces_) rows = join();
    Layout layout{rows, pieces_, 0, 0, bytes_};
    if (pieces_ == 1) {  // whatever it was: a mixed row starts like a uniform one
      layout.piece_bytes = bytes_;
    } else if (!mixed_ && pieces_ > 1) {
      layout.piece_bytes = piece_bytes_;
      layout.skip = piece_bytes_ - first_;
    }
    return layout;
  }

 private:
  void add_mixed(std::uint64_t origin, std::uint64_t bytes) noexcept {
    bytes_ += bytes;
    if (words_[2 * (std::size_t{pieces_} - 1)] != origin) {
      assert(bytes_max(pieces_ + std::size_t{1}) <= capacity_bytes_);
      words_[2 * std::size_t{pieces_++}] = origin;
    }
    words_[2 * (std::size_t{pieces_} - 1) + 1] = bytes_;
  }

  /// Turns uniform rows into mixed ones, from the back, so that none is overwritten unread.
  void mix() noexcept {
    for (std::size_t i = pieces_; i-- > 0;) {
      std::uint64_t const origin = words_[i];
      words_[2 * i] = origin;
      words_[2 * i + 1] = i + 1 == pieces_ ? bytes_ : first_ + i * piece_bytes_;
    }
    mixed_ = true;
  }

  /// Copies uniform rows to the unused upper half as mixed ones, neighbours as one.
  [[nodiscard]] std::uint64_t* join() noexcept {
    std::uint64_t* const rows = words_ + (std::size_t{pieces_} + 1) / 2 * 2;
    std::size_t n = 0;
    for (std::size_t i = 0; i < pieces_; ++i) {
      if (n == 0 || rows[2 * (n - 1)] != words_[i]) rows[2 * n++] = words_[i];
      rows[2 * n - 1] = i + 1 == pieces_ ? bytes_ : first_ + i * piece_bytes_;
    }
    pieces_ = static_cast<std::uint32_t>(n);
    mixed_ = true;
    return rows;
  }

  std::uint64_t* words_;
  std::size_t capacity_bytes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t first_ = 0;        ///< bytes of the first piece
  std::uint64_t last_ = 0;         ///< bytes of the newest piece
  std::uint64_t piece_bytes_ = 0;  ///< bytes of the second piece: the first may be cut
  std::uint32_t pieces_ = 0;
  std::uint32_t runs_ = 0;  ///< pieces that do not continue the one before
  bool mixed_ = false;
};

/// [bytes] A table up to this size travels with its launch, so that the device reads nothing of it
/// over PCIe and its memory is free again when the launch returns.
inline constexpr std::size_t value_bytes_max = 3520;

/// Batched copies as compiled into b10::cuda: use it where the engine is built by g++ or clang, and
/// b10::device::Inline (copy_spans.cuh) where it is built by nvcc; both do the same. Each call
/// launches one kernel on `stream`, which belongs to the current device, or nothing if the layout
/// is empty; it allocates nothing and waits for nothing. Pieces of one layout do not overlap. The
/// result is the launch's; what goes wrong later is reported by the stream. Any thread.
struct Linked {
  /// Joins the pieces to `to` [layout.bytes].
  [[nodiscard]] static cudaError_t gather(Layout const& layout, std::byte* to, Reach reach,
                                          cudaStream_t stream) noexcept;
  /// Spreads `from` [layout.bytes] over the pieces.
  [[nodiscard]] static cudaError_t scatter(std::byte const* from, Layout const& layout, Reach reach,
                                           cudaStream_t stream) noexcept;
  /// Writes the parts of a b10::Digest of VRAM: digest_partials(bytes) numbers whose sum it is, to
  /// memory that the device can write. `from` is aligned to 8 and starts with word `first_word` of
  /// what the digest is of.
  [[nodiscard]] static cudaError_t digest(std::byte const* from, std::uint64_t bytes,
                                          std::uint64_t first_word, std::uint64_t* partials,
                                          cudaStream_t stream) noexcept;
};

}  // namespace b10::device
