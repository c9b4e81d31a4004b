// A bf16 matrix product beside each way of copying, and each way alone.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include <cublas_v2.h>
#include <cuda_bf16.h>

#include "methods.cuh"

namespace b10::bench {

static __global__ void fill_matrix(__nv_bfloat16* m, std::size_t n, std::uint64_t first) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    m[i] = __float2bfloat16(static_cast<float>(mixed(first + i) & 0xffff) / 65536.f - 0.5f);
}

/// An 8192 x 8192 x 8192 product on a stream of its own.
class Product {
 public:
  explicit Product(int priority) {
    require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "stream");
    require(cudaEventCreate(&start_), "event");
    require(cudaEventCreate(&stop_), "event");
    check(cublasCreate(&handle_));
    check(cublasSetStream(handle_, stream_));
    fill_matrix<<<2048, 256>>>(a_, n * n, 1);
    fill_matrix<<<2048, 256>>>(b_, n * n, n * n);
    require(cudaDeviceSynchronize(), "fill");
  }
  /// TFLOP/s of `repeats` in a row.
  double run(int repeats) {
    float const one = 1, zero = 0;
    constexpr int size = static_cast<int>(n);
    require(cudaEventRecord(start_, stream_), "record");
    for (int i = 0; i < repeats; ++i)
      check(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, a_, CUDA_R_16BF,
                         size, b_, CUDA_R_16BF, size, &zero, c_, CUDA_R_16BF, size,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    require(cudaEventRecord(stop_, stream_), "record");
    require(cudaEventSynchronize(stop_), "product");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start_, stop_), "elapsed");
    return 2.0 * n * n * n * repeats / ms / 1e9;
  }

 private:
  static constexpr std::size_t n = 8192;
  static void check(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    std::fprintf(stderr, "cuBLAS: status %d\n", static_cast<int>(status));
    std::exit(1);
  }
  cudaStream_t stream_{};
  cudaEvent_t start_{}, stop_{};
  cublasHandle_t handle_{};
  __nv_bfloat16* a_ = allocate<__nv_bfloat16>(n * n);
  __nv_bfloat16* b_ = allocate<__nv_bfloat16>(n * n);
  __nv_bfloat16* c_ = allocate<__nv_bfloat16>(n * n);
};

/// Repeats a copy on a thread of its own and notes when each one ends.
class Loop {
 public:
  Loop(std::function<void()> copy, cudaStream_t ends_on)
      : thread_([this, copy = std::move(copy), ends_on] {
          require(cudaSetDevice(0), "cudaSetDevice");
          while (!stop_) {
            copy();
            require(cudaStreamSynchronize(ends_on), "copy");
            ends_.push_back(now_s());
            count_ = ends_.size();
          }
        }) {
    while (count_ == 0) std::this_thread::yield();
  }
  /// Copies a second that ended in [from, to].
  double stop(double from, double to) {
    stop_ = true;
    thread_.join();
    std::vector<double> in;
    for (double const t : ends_)
      if (t >= from && t <= to) in.push_back(t);
    return in.size() < 2 ? 0 : static_cast<double>(in.size() - 1) / (in.back() - in.front());
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> count_{0};
  std::vector<double> ends_;
  std::thread thread_;
};

struct Neighbour {
  std::string name;
  std::function<void()> copy;
  cudaStream_t ends_on;
};

/// One row: the product alone and beside the copy in turn, and the copy alone.
inline void interference_row(Product& product, Neighbour const& n, std::size_t bytes,
                             char const* what) {
  double const gigabytes = static_cast<double>(bytes) / 1e9;
  constexpr int repeats = 80;
  std::vector<double> alone, beside, slowdown, speed;
  for (int r = 0; r < 3; ++r) {
    alone.push_back(product.run(repeats));
    Loop loop(n.copy, n.ends_on);
    double const from = now_s();
    beside.push_back(product.run(repeats));
    speed.push_back(loop.stop(from, now_s()) * gigabytes);
    slowdown.push_back(100 * (1 - beside.back() / alone.back()));
  }
  double const from = now_s();
  Loop loop(n.copy, n.ends_on);
  while (now_s() < from + 0.12) std::this_thread::yield();
  double const solo = loop.stop(from, now_s()) * gigabytes;
  auto const s = spread(slowdown);
  double const copy = spread(speed).median;
  std::printf("| %s | %s | %.0f | %.0f | %.1f (%.1f to %.1f) | %.1f | %.1f | %.2f |\n", what,
              n.name.c_str(), spread(alone).median, spread(beside).median, s.median, s.min, s.max,
              copy, solo, copy / solo);
  std::fflush(stdout);
}

inline void interference(Rig& rig) {
  constexpr std::size_t span_bytes = 64 << 10;
  int least = 0, greatest = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities");
  Spans const spans(rig, span_bytes, Rig::bytes_max);
  FullTable const table(rig, spans);
  CopyEngineBatch batch(rig, spans, spans.count);
  Streams const streams(least);
  Product above(greatest), equal(least);
  above.run(20);
  equal.run(20);

  std::printf(
      "\n## A bf16 8192^3 product beside copies of 64 KiB spans\n\n"
      "Copies run at the lowest priority (%d), which is also the default; the product above "
      "them (%d) or at the same.\n\n"
      "| copy | product | alone, TFLOP/s | beside | slower by, %% | copy, GB/s | copy alone "
      "| ratio |\n|---|---|---|---|---|---|---|---|\n",
      least, greatest);
  for (auto const d : {Direction::gather, Direction::scatter}) {
    char const* const way = d == Direction::gather ? "gather" : "scatter";
    auto const row = [&](std::string const& name, std::function<void()> copy) {
      for (auto* product : {&above, &equal}) {
        std::string const label = std::string(way) + ": " + name;
        interference_row(*product, {product == &above ? "above" : "equal", copy, streams.kernel},
                         spans.bytes(), label.c_str());
      }
    };
    row("one cudaMemcpyAsync", [&] { plain_memcpy(rig, spans.bytes(), d, streams.kernel); });
    for (std::size_t const mib : {4u, 8u, 16u, 32u})
      row("staged, " + std::to_string(mib) + " MiB slices",
          [&, mib] { staged(rig, spans, mib << 20, d, streams); });
    row("kernel direct, default blocks",
        [&] { kernel(table.layout, rig.pinned, device::Reach::pinned, d, streams.kernel); });
    row("cudaMemcpyBatchAsync", [&] { batch.copy(d, streams.kernel); });
  }
}

}  // namespace b10::bench
