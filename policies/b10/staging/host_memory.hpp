#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <b10/staging/mapping.hpp>

namespace b10::staging {

/// When the pages of a block are first touched.
enum class Prefault : std::uint8_t {
  at_start,  ///< when the block is made: a page fault costs more than copying the page does
  on_use,    ///< by the first transfer: quick start, slow first transfers
};

/// Whether blocks are locked into physical memory.
enum class PageLock : std::uint8_t {
  try_,  ///< lock while the system lets us, go on without when it does not
  never,
  require,  ///< refuse to start without
};

/// Gives and takes plain host memory: one Mapping per block. One thread at a time; page_locked()
/// from any.
class HostMemory {
 public:
  struct Options {
    Prefault prefault = Prefault::at_start;
    PageLock page_lock = PageLock::try_;
  };

  explicit HostMemory(Options options) noexcept
      : options_(options), page_locked_(options.page_lock != PageLock::never) {}

  /// Zeroed memory, ready for use. Throws Error{refused} naming bytes, limit and knob when the
  /// system has none, or cannot lock it and must.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    Mapping block(bytes);
    if (options_.prefault == Prefault::at_start) block.touch();
    if (options_.page_lock != PageLock::never) lock(block);
    return block.release();
  }

  /// Back to the system: the address is invalid afterwards. `bytes` as given to allocate().
  void free(std::byte* memory, std::size_t bytes) noexcept { Mapping::unmap(memory, bytes); }

  /// Every block so far is locked.
  [[nodiscard]] bool page_locked() const noexcept {
    return page_locked_.load(std::memory_order_relaxed);
  }

 private:
  void lock(Mapping const& block) {
    if (options_.page_lock == PageLock::try_ && !page_locked()) return;  // it failed before
    auto const flags = options_.prefault == Prefault::on_use ? MLOCK_ONFAULT : 0u;
    if (mlock2(block.data(), block.size(), flags) == 0) return;
    auto const error = errno;
    page_locked_.store(false, std::memory_order_relaxed);
    if (options_.page_lock == PageLock::try_) return;
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    refuse_block("lock", block.size(), std::strerror(error),
                 "the limit of this process is " + std::to_string(limit.rlim_cur) +
                     " bytes: raise it (ulimit -l) or set page_lock to try_");
  }

  Options options_;
  std::atomic<bool> page_locked_;
};

}  // namespace b10::staging
