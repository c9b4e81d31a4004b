#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include <b10/outcome.hpp>

namespace b10::copy::cuda {

/// What a CUDA error is, and whether the process can go on: an error that stays means that its CUDA
/// context is lost, and with it every later CUDA call. Clears an error that does not stay.
[[nodiscard]] inline std::string describe(cudaError_t error) {
  std::string text = std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
  (void)cudaGetLastError();
  bool const no_context = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
                          error == cudaErrorInvalidDevice || error == cudaErrorStubLibrary;
  if (!no_context && cudaFree(nullptr) == error)
    text += "; it is sticky: this process's CUDA context is lost, restart the process";
  (void)cudaGetLastError();
  return text;
}

/// How far an event is. "Not ready" is an answer, so it is not left behind as the thread's last
/// error for whoever asks next.
[[nodiscard]] inline cudaError_t ask(cudaEvent_t event) noexcept {
  cudaError_t const e = cudaEventQuery(event);
  if (e == cudaErrorNotReady) (void)cudaGetLastError();
  return e;
}

/// Throws Error{reason} "<what>: <error>" unless `error` is success.
inline void require(cudaError_t error, Reason reason, std::string const& what) {
  if (error != cudaSuccess) throw Error(reason, what + ": " + describe(error));
}

/// An owned CUDA handle; `Destroy` gives it back. Destroying a stream or an event whose work has
/// not ended does not wait for it.
template <class Handle, cudaError_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) noexcept : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) (void)Destroy(handle_);
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }
  /// It stays for the life of the process.
  void keep() noexcept { handle_ = Handle{}; }

 private:
  Handle handle_{};
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using DeviceBytes = Owned<void*, cudaFree>;
using PinnedBytes = Owned<void*, cudaFreeHost>;

}  // namespace b10::copy::cuda
