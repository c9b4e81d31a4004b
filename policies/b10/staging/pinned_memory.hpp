#pragma once

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <atomic>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>

#include <b10/copy/cuda/device_scope.hpp>
#include <b10/outcome.hpp>
#include <b10/staging/block_memory.hpp>
#include <b10/staging/mapping.hpp>
#include <b10/staging/numa.hpp>

namespace b10::staging {

/// Which memory of a machine with several NUMA nodes.
enum class Numa : std::uint8_t {
  near_device,  ///< of the node that the GPU is attached to, while it has any: no socket between
  anywhere,     ///< of the node whose thread makes the block
};

/// Gives and takes host memory that the CUDA driver has pinned: every GPU of the process reaches it
/// by DMA and by kernels, at its host address. One Mapping per block, touched first, then
/// registered: several times faster than cudaHostAlloc. A forked child has no such memory: sharing
/// it would move pages away from under a DMA. One thread at a time, any thread; stranded_bytes()
/// from any.
class PinnedMemory {
 public:
  struct Options {
    Numa numa = Numa::near_device;
    int device = -1;  ///< CUDA ordinal; -1: the current device of the thread that constructs
  };

  /// Throws Error{refused} when there is no such device; the text names CUDA's reason.
  explicit PinnedMemory(Options options)
      : device_(checked(options.device)),
        node_(options.numa == Numa::near_device ? node_of(device_) : -1) {}

  /// Zeroed, pinned memory. Throws Error{refused} naming bytes, device, CUDA's reason and knob.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    copy::cuda::DeviceScope const scope(device_);
    if (scope.status() != cudaSuccess) refuse_cuda(bytes, scope.status());
    Mapping block(bytes);
    madvise(block.data(), block.size(), MADV_DONTFORK);
    if (node_ >= 0 && !prefer_node(block.data(), block.size(), node_)) node_ = -1;
    block.touch();
    auto const status = cudaHostRegister(block.data(), block.size(),
                                         cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (status != cudaSuccess) refuse_cuda(block.size(), status);
    return block.release();
  }

  /// Unpins, then back to the system. Memory that CUDA does not let go of stays mapped for ever:
  /// what is mapped at its address next would take part in copies as if it were pinned. `bytes` as
  /// given to allocate().
  void free(std::byte* memory, std::size_t bytes) noexcept {
    copy::cuda::DeviceScope const scope(device_);
    auto const status = cudaHostUnregister(memory);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (status == cudaSuccess || status == cudaErrorHostMemoryNotRegistered) {
      Mapping::unmap(memory, bytes);
    } else {
      stranded_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
  }

  /// CUDA ordinal; never -1.
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Node that the blocks prefer; -1: none, or the system does not allow to choose.
  [[nodiscard]] int numa_node() const noexcept { return node_.load(std::memory_order_relaxed); }
  /// Memory that CUDA refused to unpin [bytes]: a failed device.
  [[nodiscard]] std::uint64_t stranded_bytes() const noexcept {
    return stranded_bytes_.load(std::memory_order_relaxed);
  }

 private:
  static int checked(int device) {
    int count = 0;
    auto status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && device < 0) status = cudaGetDevice(&device);
    if (status == cudaSuccess && device >= count) status = cudaErrorInvalidDevice;
    if (status == cudaSuccess) return device;
    static_cast<void>(cudaGetLastError());  // reported here: not the next call's business
    throw Error(Reason::refused, "cannot pin staging for CUDA device " + std::to_string(device) +
                                     " of " + std::to_string(count) + ": " + text(status) + "; " +
                                     advice(status));
  }

  static int node_of(int device) {
    char bus_id[32] = {};
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) != cudaSuccess) return -1;
    for (char& c : bus_id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return numa_node_of_pci(bus_id);
  }

  [[noreturn]] void refuse_cuda(std::size_t bytes, cudaError_t status) const {
    static_cast<void>(cudaGetLastError());
    refuse_block("pin", bytes, "CUDA device " + std::to_string(device_) + ": " + text(status),
                 advice(status));
  }

  static std::string text(cudaError_t status) {
    return std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ")";
  }

  static char const* advice(cudaError_t status) noexcept {
    switch (status) {
      case cudaErrorNoDevice:
      case cudaErrorInsufficientDriver:
      case cudaErrorStubLibrary:
        return "make a GPU and its driver visible (nvidia-smi, CUDA_VISIBLE_DEVICES), or use "
               "staging::Host";
      case cudaErrorInvalidDevice:
        return "set device to one of this process, or to -1";
      default:
        return "lower buffers or buffer_bytes, or raise the limit of locked memory (ulimit -l)";
    }
  }

  int device_;
  std::atomic<int> node_;
  std::atomic<std::uint64_t> stranded_bytes_{0};
};

static_assert(BlockMemory<PinnedMemory>, "staging::PinnedMemory must model BlockMemory");

}  // namespace b10::staging
