#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include <b10/copy/cuda/device_scope.hpp>
#include <b10/outcome.hpp>

namespace b10::staging {

/// Pins shared memory for the CUDA engines of the process that maps it, so that their DMA reaches
/// it at full speed; both processes pin the same pages, each for itself. One thread at a time, any
/// thread.
class CudaPinning {
 public:
  struct Options {
    int device = -1;  ///< CUDA ordinal; -1: the current one of the constructing thread
  };

  /// The same with the device that -1 means on this thread: other threads have another one.
  [[nodiscard]] static Options resolved(Options options) noexcept {
    if (options.device < 0 && cudaGetDevice(&options.device) != cudaSuccess)
      options.device = 0;  // pin() will say what is wrong
    return options;
  }

  explicit CudaPinning(Options const& options) noexcept : device_(resolved(options).device) {}

  /// Throws Error{refused} with the number of bytes and CUDA's reason.
  void pin(std::byte* memory, std::size_t bytes) {
    copy::cuda::DeviceScope const scope(device_);
    auto status = scope.status();
    if (status == cudaSuccess) status = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();
    throw Error(Reason::refused, "cannot pin " + std::to_string(bytes) +
                                     " bytes of shared staging for CUDA device " +
                                     std::to_string(device_) + ": " + cudaGetErrorString(status) +
                                     "; lower buffers, or raise the limit of locked memory");
  }
  void unpin(std::byte* memory) noexcept {
    copy::cuda::DeviceScope const scope(device_);
    if (cudaHostUnregister(memory) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  int device_ = -1;
};

}  // namespace b10::staging
