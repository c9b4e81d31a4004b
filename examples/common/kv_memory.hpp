// Where a KV pool lies: host memory, or a GPU's (gpu.hpp). What a process does with its own pages,
// apart from having them moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>

#include <b10/types.hpp>

#include "pattern.hpp"

struct CUevent_st;  // what a cudaEvent_t points to; declared here for builds without CUDA

namespace demo {

/// Fires when pages hold what was computed; null: they do. Must live until the transfer has ended.
using Ready = std::shared_ptr<CUevent_st>;

/// A span of a pool and the KV that belongs there.
struct Page {
  std::uint64_t offset = 0;  ///< from the start of the pool
  std::uint64_t bytes = 0;
  Pattern content;
};

/// One thread, but read() any. Throws std::runtime_error when there is not enough memory, or when a
/// GPU fails.
class KvMemory {
 public:
  KvMemory() = default;
  KvMemory(KvMemory const&) = delete;
  KvMemory& operator=(KvMemory const&) = delete;
  virtual ~KvMemory() = default;

  [[nodiscard]] virtual b10::Device device() const = 0;
  [[nodiscard]] virtual std::byte* base() const = 0;
  /// "Computes" pages. In a GPU's memory this only queues the work.
  [[nodiscard]] virtual Ready compute(std::span<Page const> pages) = 0;
  /// Sets bytes; settle() waits until that is done.
  virtual void fill(std::uint64_t offset, std::uint64_t bytes, std::byte value) = 0;
  virtual void settle() = 0;
  /// Bytes to look at: where they are, or copied into `buffer`.
  [[nodiscard]] virtual std::span<std::byte const> read(std::uint64_t offset, std::uint64_t bytes,
                                                        std::vector<std::byte>& buffer) const = 0;
};

class HostKvMemory : public KvMemory {
 public:
  explicit HostKvMemory(std::uint64_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ == MAP_FAILED)
      throw std::runtime_error("there is no memory for a pool of " + std::to_string(bytes >> 20) +
                               " MiB: lower --pool");
    madvise(memory_, bytes_, MADV_HUGEPAGE);
  }
  ~HostKvMemory() override { munmap(memory_, bytes_); }

  [[nodiscard]] b10::Device device() const override { return b10::Device::host; }
  [[nodiscard]] std::byte* base() const override { return static_cast<std::byte*>(memory_); }
  [[nodiscard]] Ready compute(std::span<Page const> pages) override {
    for (auto const& p : pages) p.content.fill({base() + p.offset, p.bytes});
    return nullptr;
  }
  void fill(std::uint64_t offset, std::uint64_t bytes, std::byte value) override {
    std::memset(base() + offset, static_cast<int>(value), bytes);
  }
  void settle() override {}
  [[nodiscard]] std::span<std::byte const> read(std::uint64_t offset, std::uint64_t bytes,
                                                std::vector<std::byte>&) const override {
    return {base() + offset, bytes};
  }

 private:
  std::uint64_t bytes_;
  void* memory_;
};

}  // namespace demo
