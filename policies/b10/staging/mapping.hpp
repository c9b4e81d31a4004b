#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <b10/outcome.hpp>

namespace b10::staging {

/// Throws Error{refused}: which block of how many bytes could not be had, why, and what to do.
[[noreturn]] inline void refuse_block(char const* what, std::size_t bytes, std::string const& why,
                                      std::string const& advice) {
  throw Error(Reason::refused, std::string("cannot ") + what + " a staging block of " +
                                   std::to_string(bytes) + " bytes: " + why + "; " + advice);
}

/// Zeroed memory of this process in a mapping of its own, so that it can go back to the system
/// alone. Of 2 MiB and more it is aligned to 2 MiB and asks for huge pages; else it is aligned to a
/// page. Unmaps when it dies, unless release() has handed it on.
class Mapping {
 public:
  /// Address space for `bytes`, rounded up to pages; no memory yet. Throws Error{refused} when the
  /// system gives no more.
  explicit Mapping(std::size_t bytes) : size_(mapped_bytes(bytes)), memory_(map(size_)) {
    if (size_ >= huge_page) madvise(memory_, size_, MADV_HUGEPAGE);  // advice: else pages are small
  }
  Mapping(Mapping const&) = delete;
  Mapping& operator=(Mapping const&) = delete;
  ~Mapping() {
    if (memory_) munmap(memory_, size_);
  }

  [[nodiscard]] std::byte* data() const noexcept { return memory_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Backs every page with memory now. Throws Error{refused} when there is not enough.
  void touch() {
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory_, size_, MADV_POPULATE_WRITE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS)
      refuse_block("touch", size_, std::strerror(errno), "lower buffer_bytes or buffers");
#endif
    for (std::size_t at = 0; at < size_; at += page()) {
      *const_cast<std::byte volatile*>(memory_ + at) = std::byte{0};
    }
  }

  /// The memory is the caller's from now on: it ends by unmap().
  [[nodiscard]] std::byte* release() noexcept { return std::exchange(memory_, nullptr); }

  /// Back to the system: the address is invalid afterwards. `bytes` as given to the constructor.
  static void unmap(std::byte* memory, std::size_t bytes) noexcept {
    munmap(memory, mapped_bytes(bytes));
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
    if (raw == MAP_FAILED) {
      refuse_block("map", size, std::strerror(errno),
                   "lower buffer_bytes or buffers, or raise vm.max_map_count");
    }
    auto* const begin = static_cast<std::byte*>(raw);
    auto const misaligned = reinterpret_cast<std::uintptr_t>(begin) % align;
    auto const head = misaligned == 0 ? 0 : align - misaligned;
    if (head > 0) munmap(begin, head);
    if (slack > head) munmap(begin + head + size, slack - head);
    return begin + head;
  }

  std::size_t size_;
  std::byte* memory_;
};

}  // namespace b10::staging
