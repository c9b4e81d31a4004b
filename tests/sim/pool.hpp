#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "sim/pattern.hpp"

namespace campaign {

inline constexpr std::size_t page_bytes = 256;
inline constexpr std::size_t pages = 192;
inline constexpr std::size_t pool_bytes = pages * page_bytes;

/// The KV pools of all nodes, at the same address in every process: addresses are sent, and one
/// seed has to be one run.
class Memory {
 public:
  static constexpr std::size_t nodes_max = 4;
  Memory() {
    auto* const wish = reinterpret_cast<void*>(std::uintptr_t{0x7e90'0000'0000});
    void* const at = mmap(wish, stride * nodes_max, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("the pools' address is taken");
    base_ = static_cast<std::byte*>(at);
  }
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  ~Memory() { munmap(base_, stride * nodes_max); }

  [[nodiscard]] std::byte* pool(std::size_t node) const { return base_ + node * stride; }

 private:
  static constexpr std::size_t stride = std::size_t{1} << 20;
  std::byte* base_;
};

/// One node's KV pool: pages that its engine hands out last in, first out, and beside it what the
/// pool must look like. Pages that a transfer may be writing are open: nothing is known of them.
class Pool {
 public:
  void reset(std::byte* memory) {
    memory_ = memory;
    fill(memory_, pool_bytes, retired_word);
    if (expected_.empty()) expected_.resize(pool_bytes);
    std::memcpy(expected_.data(), memory_, pool_bytes);
    open_.assign(pages, false);
    free_.clear();
    for (std::size_t i = pages; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  }
  [[nodiscard]] std::byte* memory() const { return memory_; }
  [[nodiscard]] std::size_t free_pages() const { return free_.size(); }
  [[nodiscard]] std::byte* at(std::uint32_t page) const { return memory_ + page * page_bytes; }

  [[nodiscard]] std::vector<std::uint32_t> take(std::size_t count) {
    std::vector<std::uint32_t> out(free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
    free_.resize(free_.size() - count);
    return out;
  }
  /// Fills the pages and gives them back.
  void give_back(std::vector<std::uint32_t>& taken, Word with) {
    for (auto const page : taken) {
      paint(page, with);
      free_.push_back(page);
    }
    taken.clear();
  }
  /// Fills a page, whatever it held.
  void paint(std::uint32_t page, Word with) {
    fill(at(page), page_bytes, with);
    settle(page);
  }
  /// From now on the page may change / must stay as it is now.
  void open(std::uint32_t page) { open_[page] = true; }
  void settle(std::uint32_t page) {
    open_[page] = false;
    std::memcpy(expected_.data() + page * page_bytes, at(page), page_bytes);
  }
  /// The first byte outside of open pages that is not what it must be; pool_bytes if there is none.
  [[nodiscard]] std::size_t first_wrong() const {
    for (std::size_t i = 0; i < pages;) {
      std::size_t end = i;
      while (end < pages && !open_[end]) ++end;
      auto const* const is = memory_ + i * page_bytes;
      auto const* const must = expected_.data() + i * page_bytes;
      if (end > i && std::memcmp(is, must, (end - i) * page_bytes) != 0)
        for (std::size_t b = 0; b < (end - i) * page_bytes; ++b)
          if (is[b] != must[b]) return i * page_bytes + b;
      i = end + 1;
    }
    return pool_bytes;
  }
  /// Takes the pool as it is, so that one fault is not counted twice.
  void accept() { std::memcpy(expected_.data(), memory_, pool_bytes); }

 private:
  std::byte* memory_ = nullptr;
  std::vector<std::byte> expected_{};
  std::vector<bool> open_{};
  std::vector<std::uint32_t> free_{};
};

}  // namespace campaign
