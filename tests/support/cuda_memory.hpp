#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <b10/types.hpp>

namespace support {

inline void cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Device memory that a test can write and read whole.
class CudaMemory {
 public:
  explicit CudaMemory(std::size_t bytes, int device = 0) : bytes_(bytes), device_(device) {
    cuda(cudaSetDevice(device_));
    void* p = nullptr;
    cuda(cudaMalloc(&p, bytes_));
    data_ = static_cast<std::byte*>(p);
  }
  CudaMemory(CudaMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), device_(other.device_) {}
  CudaMemory& operator=(CudaMemory&&) = delete;
  ~CudaMemory() { (void)cudaFree(data_); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] b10::LocalSpan span() const { return {data_, bytes_, b10::Device{device_}}; }
  void write(std::vector<std::byte> const& content) {
    cuda(cudaSetDevice(device_));
    cuda(cudaMemcpy(data_, content.data(), content.size(), cudaMemcpyHostToDevice));
    cuda(cudaStreamSynchronize(nullptr));
  }
  [[nodiscard]] std::vector<std::byte> read() const {
    std::vector<std::byte> out(bytes_);
    cuda(cudaMemcpy(out.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  int device_;
};

/// Queues a kernel that stores where nothing is: the process's CUDA context is lost (gpu/fault.cu).
void fault(cudaStream_t stream);

/// Holds up whatever is queued behind it in a stream until the test opens it.
class Gate {
 public:
  ~Gate() { open(); }
  /// The stream stops here until open().
  void close(cudaStream_t stream) {
    open_.store(false);
    cuda(cudaLaunchHostFunc(
        stream,
        [](void* self) {
          while (!static_cast<Gate*>(self)->open_.load()) std::this_thread::yield();
          static_cast<Gate*>(self)->passed_.fetch_add(1);
        },
        this));
    ++closed_;
  }
  /// Lets everything pass, and waits until the driver has left this object.
  void open() {
    open_.store(true);
    while (passed_.load() < closed_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> open_{true};
  std::atomic<unsigned> passed_{0};
  unsigned closed_ = 0;
};

}  // namespace support
