// A KV pool in a GPU's memory. A kernel plays the model: it writes KV into pages.
#include "gpu.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>

namespace demo {
namespace {

constexpr unsigned threads = 256;

void require(cudaError_t error, int gpu, std::string const& what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error("GPU " + std::to_string(gpu) + ": " + what + ": " +
                           cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

/// One block of threads for each page.
__global__ void compute_pages(std::byte* pool, Page const* pages) {
  Page const page = pages[blockIdx.x];
  for (std::uint64_t i = threadIdx.x; i < page.bytes; i += blockDim.x)
    pool[page.offset + i] = page.content.byte(i);
}

struct Release {
  void operator()(std::byte* memory) const { (void)cudaFree(memory); }
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};

class GpuKvMemory : public KvMemory {
 public:
  GpuKvMemory(int gpu, std::uint64_t bytes) : gpu_(gpu) {
    use();
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes), gpu_,
            "no memory for a pool of " + std::to_string(bytes >> 20) + " MiB (--pool)");
    memory_.reset(static_cast<std::byte*>(memory));
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), gpu_, "no stream");
    stream_.reset(stream);
  }

  [[nodiscard]] b10::Device device() const override { return b10::Device{gpu_}; }
  [[nodiscard]] std::byte* base() const override { return memory_.get(); }

  /// Everything here is queued, so it returns while the pages still hold something else. Their
  /// transfer may begin at once: the gather waits for the event, not this thread.
  [[nodiscard]] Ready compute(std::span<Page const> pages) override {
    use();
    void* list = nullptr;
    require(cudaMallocAsync(&list, pages.size_bytes(), stream_.get()), gpu_, "no list of pages");
    require(cudaMemcpyAsync(list, pages.data(), pages.size_bytes(), cudaMemcpyHostToDevice,
                            stream_.get()),
            gpu_, "cannot write a list of pages");
    compute_pages<<<static_cast<unsigned>(pages.size()), threads, 0, stream_.get()>>>(
        base(), static_cast<Page const*>(list));
    require(cudaGetLastError(), gpu_, "cannot compute pages");
    require(cudaFreeAsync(list, stream_.get()), gpu_, "cannot free a list of pages");
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), gpu_, "no event");
    Ready ready(event, Release{});
    require(cudaEventRecord(event, stream_.get()), gpu_, "cannot record an event");
    return ready;
  }
  void fill(std::uint64_t offset, std::uint64_t bytes, std::byte value) override {
    use();
    require(cudaMemsetAsync(base() + offset, static_cast<int>(value), bytes, stream_.get()), gpu_,
            "cannot fill pages");
  }
  void settle() override {
    require(cudaStreamSynchronize(stream_.get()), gpu_, "what was queued failed");
  }
  [[nodiscard]] std::span<std::byte const> read(std::uint64_t offset, std::uint64_t bytes,
                                                std::vector<std::byte>& buffer) const override {
    use();
    if (buffer.size() < bytes) buffer.resize(bytes);
    require(cudaMemcpy(buffer.data(), base() + offset, bytes, cudaMemcpyDeviceToHost), gpu_,
            "cannot read pages");
    return std::span(buffer).first(bytes);
  }

 private:
  /// CUDA's current device is each thread's own.
  void use() const { require(cudaSetDevice(gpu_), gpu_, "cannot be used"); }

  int gpu_;
  std::unique_ptr<std::byte, Release> memory_{};
  std::unique_ptr<CUstream_st, Release> stream_{};
};

}  // namespace

Gpus find_gpus() {
  Gpus out;
  int count = 0;
  auto const error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    out.why_none = error == cudaSuccess ? "none is visible" : cudaGetErrorString(error);
    return out;
  }
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, gpu), gpu, "does not say what it is");
    out.names.push_back(std::string(properties.name) + ", " +
                        std::to_string(properties.totalGlobalMem >> 30) + " GiB");
  }
  return out;
}

std::unique_ptr<KvMemory> make_gpu_memory(int gpu, std::uint64_t bytes) {
  return std::make_unique<GpuKvMemory>(gpu, bytes);
}

}  // namespace demo
