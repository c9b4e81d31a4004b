#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace b10::copy::cuda {

/// Makes a device current on this thread for as long as it lives. The device before comes back,
/// unless this process does not use it: making it current would set up a context there, some 500 MB
/// of a GPU that may be another rank's. A thread that has not used a GPU yet is left with this one.
class DeviceScope {
 public:
  explicit DeviceScope(int device) noexcept : now_(device), before_(device) {
    status_ = cudaGetDevice(&before_);
    if (status_ != cudaSuccess || before_ == now_) return;
    status_ = cudaSetDevice(now_);
  }
  DeviceScope(DeviceScope const&) = delete;
  DeviceScope& operator=(DeviceScope const&) = delete;
  ~DeviceScope() {
    if (status_ == cudaSuccess && before_ != now_ && in_use(before_))
      static_cast<void>(cudaSetDevice(before_));
  }

  /// What making it current said.
  [[nodiscard]] cudaError_t status() const noexcept { return status_; }

 private:
  /// Only the driver knows; through the runtime, so that libcuda need not be linked.
  [[nodiscard]] static bool in_use(int device) noexcept {
    using State = CUresult (*)(CUdevice, unsigned*, int*);
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    auto const status = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &entry, 7000,
                                                         cudaEnableDefault, &found);
    if (status != cudaSuccess || !entry) {
      static_cast<void>(cudaGetLastError());  // not the business of the calls that follow
      return false;
    }
    unsigned flags = 0;
    int active = 0;
    return reinterpret_cast<State>(entry)(device, &flags, &active) == CUDA_SUCCESS && active != 0;
  }

  int now_;
  int before_;
  cudaError_t status_ = cudaSuccess;
};

}  // namespace b10::copy::cuda
