#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <b10/outcome.hpp>

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

/// Gives and takes plain host memory, one mapping per block, so that each block can go back to the
/// system alone. Blocks of 2 MiB and more are aligned to 2 MiB and ask for huge pages; smaller ones
/// are aligned to a page. One thread at a time; page_locked() from any.
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
    auto const size = mapped_bytes(bytes);
    auto* const memory = map(size);
    try {
      if (size >= huge_page) madvise(memory, size, MADV_HUGEPAGE);  // advice: else pages are small
      if (options_.prefault == Prefault::at_start) touch(memory, size);
      if (options_.page_lock != PageLock::never) lock(memory, size);
    } catch (...) {
      munmap(memory, size);
      throw;
    }
    return memory;
  }

  /// Back to the system: the address is invalid afterwards. `bytes` as given to allocate().
  void free(std::byte* memory, std::size_t bytes) noexcept { munmap(memory, mapped_bytes(bytes)); }

  /// Every block so far is locked.
  [[nodiscard]] bool page_locked() const noexcept {
    return page_locked_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  static std::size_t page() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static std::size_t mapped_bytes(std::size_t bytes) noexcept {
    return (bytes + page() - 1) / page() * page();
  }

  /// mmap aligns to a page only: maps more and gives the ends back.
  static std::byte* map(std::size_t size) {
    auto const align = size >= huge_page ? huge_page : page();
    auto const slack = align - page();
    void* const raw = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
      refuse("map", size, "; lower buffer_bytes or buffers, or raise vm.max_map_count");
    auto* const begin = static_cast<std::byte*>(raw);
    auto const misaligned = reinterpret_cast<std::uintptr_t>(begin) % align;
    auto const head = misaligned == 0 ? 0 : align - misaligned;
    if (head > 0) munmap(begin, head);
    if (slack > head) munmap(begin + head + size, slack - head);
    return begin + head;
  }

  static void touch(std::byte* memory, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, size, MADV_POPULATE_WRITE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS)
      refuse("touch", size, "; lower buffer_bytes or buffers");
#endif
    for (std::size_t at = 0; at < size; at += page()) {
      *const_cast<std::byte volatile*>(memory + at) = std::byte{0};
    }
  }

  void lock(std::byte* memory, std::size_t size) {
    if (options_.page_lock == PageLock::try_ && !page_locked()) return;  // it failed before
    auto const flags = options_.prefault == Prefault::on_use ? MLOCK_ONFAULT : 0u;
    if (mlock2(memory, size, flags) == 0) return;
    page_locked_.store(false, std::memory_order_relaxed);
    if (options_.page_lock == PageLock::try_) return;
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    refuse("lock", size,
           "; the limit of this process is " + std::to_string(limit.rlim_cur) +
               " bytes: raise it (ulimit -l) or set page_lock to try_");
  }

  [[noreturn]] static void refuse(char const* what, std::size_t size, std::string const& advice) {
    std::string const why = std::strerror(errno);
    throw Error(Reason::refused, std::string("cannot ") + what + " a staging block of " +
                                     std::to_string(size) + " bytes: " + why + advice);
  }

  Options options_;
  std::atomic<bool> page_locked_;
};

}  // namespace b10::staging
