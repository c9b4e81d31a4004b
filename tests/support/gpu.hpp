#pragma once

#include <iostream>

#include <cuda_runtime_api.h>

namespace support {

/// True, after it has said why, where a test that needs a GPU has to return.
[[nodiscard]] inline bool no_gpu() {
  int devices = 0;
  cudaError_t const error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return false;
  static_cast<void>(cudaGetLastError());
  std::cout << "skipped: no CUDA device ("
            << (error == cudaSuccess ? "none is visible" : cudaGetErrorString(error)) << ")"
            << std::endl;
  return true;
}

}  // namespace support
