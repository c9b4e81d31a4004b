// What the machine does at best between the two GPUs with one plain copy: the ceiling of staging
// that peers write themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <b10/steady_clock.hpp>

#include "gpu_rig.hpp"

namespace b10::bench {

class PlainCopy {
 public:
  PlainCopy(int sender_gpu, int receiver_gpu, StagingKind staging)
      : sender_gpu_(sender_gpu), receiver_gpu_(receiver_gpu), staging_(staging) {
    on(sender_gpu_);
    check(cudaMalloc(&source_, bytes_max));
    if (staging_ == StagingKind::shared) check(cudaHostAlloc(&host_, bytes_max, 0));
    if (receiver_gpu_ != sender_gpu_) {  // NVLink, where there is one, and not through the host
      auto const e = cudaDeviceEnablePeerAccess(receiver_gpu_, 0);
      if (e == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
      else
        check(e);
    }
    on(receiver_gpu_);
    check(cudaMalloc(&destination_, bytes_max));
    on(sender_gpu_);
  }
  PlainCopy(PlainCopy const&) = delete;
  PlainCopy& operator=(PlainCopy const&) = delete;
  ~PlainCopy() {
    (void)cudaFree(source_);
    (void)cudaFree(destination_);
    (void)cudaFreeHost(host_);
  }

  /// Seconds for `bytes`: over the bus the slower of there and back, since both go on at once.
  [[nodiscard]] double seconds(std::uint64_t bytes) {
    auto const n = std::min<std::uint64_t>(bytes, bytes_max);
    double const scale = static_cast<double>(bytes) / static_cast<double>(n);
    if (staging_ != StagingKind::shared)
      return scale * timed(destination_, source_, n, sender_gpu_);
    double const up = timed(host_, source_, n, sender_gpu_);
    double const down = timed(destination_, host_, n, receiver_gpu_);
    return scale * std::max(up, down);
  }

 private:
  static constexpr std::uint64_t bytes_max = std::uint64_t{1} << 30;

  static void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
  }
  static void on(int gpu) { check(cudaSetDevice(gpu)); }
  double timed(void* to, void const* from, std::uint64_t bytes, int gpu) {
    on(gpu);
    check(cudaDeviceSynchronize());
    auto const start = steady_now();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));
    check(cudaStreamSynchronize(nullptr));
    auto const time = (steady_now() - start).seconds();
    on(sender_gpu_);
    return time;
  }

  int sender_gpu_;
  int receiver_gpu_;
  StagingKind staging_;
  void* source_ = nullptr;
  void* destination_ = nullptr;
  void* host_ = nullptr;
};

}  // namespace b10::bench
