#pragma once

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <b10/outcome.hpp>
#include <b10/staging/block_memory.hpp>
#include <b10/staging/mapping.hpp>
#include <b10/staging/shared_segment.hpp>

namespace b10::staging {

/// Leaves shared memory as it is: for copy engines that run on the CPU. See CudaPinning.
struct NoPinning {
  struct Options {};
  [[nodiscard]] static Options resolved(Options options) noexcept { return options; }
  explicit NoPinning(Options) noexcept {}
  /// Throws Error{refused}.
  void pin(std::byte*, std::size_t) {}
  void unpin(std::byte*) noexcept {}
};

/// Blocks of one memfd segment that peers on this host map too. A block's place in the segment is
/// used once: what is freed goes back to the system, and its place stays empty, so that a peer that
/// writes late writes into a hole and never into a block that came after. The segment therefore has
/// places for several times the blocks it holds. Nameless, readable by this user only, its size
/// sealed. One thread at a time.
template <class Pinning>
class SharedMemory {
 public:
  struct Options {
    std::size_t block_bytes = 0;  ///< as allocate() will be asked for
    std::uint64_t blocks = 0;     ///< that exist from the start
    std::uint64_t lives = 1;      ///< places for so many times as many
    typename Pinning::Options pinning{};
  };

  /// Throws Error{refused}.
  explicit SharedMemory(Options const& o)
      : stride_((o.block_bytes + page - 1) / page * page),
        descriptor_(memfd_create("b10 staging", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
        pinning_(o.pinning) {
    if (descriptor_ < 0)
      refuse_block("share", o.block_bytes, std::strerror(errno), "raise ulimit -n");
    offer_ = {.boot = detail::boot_id(),
              .pid_namespace = detail::pid_namespace(),
              .pid = static_cast<std::uint64_t>(getpid()),
              .descriptor = static_cast<std::uint64_t>(descriptor_),
              .bytes = segment_head_bytes + stride_ * o.blocks * o.lives,
              .block_bytes = stride_,
              .blocks = o.blocks,
              .secret = detail::new_secret()};
    bool const sized =
        ftruncate(descriptor_, static_cast<off_t>(offer_.bytes)) == 0 &&
        fchmod(descriptor_, S_IRUSR | S_IWUSR) == 0 &&
        fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (sized) mapping_.emplace(descriptor_, offer_.bytes);
    if (!sized || !mapping_->mapped()) {
      int const error = errno;
      close(descriptor_);
      refuse_block("share", o.block_bytes, std::strerror(error), "lower lives or buffers");
    }
    std::memcpy(mapping_->data(), offer_.secret.data(), offer_.secret.size());
  }
  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;
  /// Blocks that were not freed stay pinned and mapped: a copy engine may still write them.
  ~SharedMemory() {
    if (blocks_ > 0) mapping_->keep();
    close(descriptor_);
  }

  /// Zeroed memory at a place that no block has had. Throws Error{refused}.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    if (offer_.bytes - next_ < stride_)
      refuse_block("share", bytes, "each place of the segment has been used once",
                   "raise lives (now " +
                       std::to_string((offer_.bytes - segment_head_bytes) / stride_) +
                       " places), or restart");
    auto* const block = mapping_->data() + next_;
    if (fallocate(descriptor_, 0, static_cast<off_t>(next_), static_cast<off_t>(stride_)) != 0)
      refuse_block("share", bytes, std::strerror(errno),
                   "lower buffers, or raise the limit of "
                   "shared memory of this container");
    next_ += stride_;
    pinning_.pin(block, stride_);
    ++blocks_;
    return block;
  }
  void free(std::byte* block, std::size_t) noexcept {
    pinning_.unpin(block);
    --blocks_;
    (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(block - mapping_->data()), static_cast<off_t>(stride_));
  }

  [[nodiscard]] SegmentOffer const& offer() const noexcept { return offer_; }
  /// Where in the segment an address of this process is [bytes].
  [[nodiscard]] std::uint64_t place(std::byte const* address) const noexcept {
    return static_cast<std::uint64_t>(address - mapping_->data());
  }

 private:
  static constexpr std::size_t page = 4096;

  std::size_t stride_;
  int descriptor_;
  Pinning pinning_;
  SegmentOffer offer_{};
  std::optional<SegmentMapping> mapping_{};
  std::uint64_t next_ = segment_head_bytes;
  std::size_t blocks_ = 0;
};

static_assert(BlockMemory<SharedMemory<NoPinning>>);

}  // namespace b10::staging
