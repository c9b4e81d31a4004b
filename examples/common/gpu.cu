// A KV pool in a GPU's memory, and kernels that play the model: they take their time and write KV
// into pages.
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

struct Filled {
  std::byte* begin;
  std::uint64_t bytes;
  Pattern content;
};

/// One block of threads for each page.
__global__ void compute_pages(Filled const* pages) {
  Filled const page = pages[blockIdx.x];
  for (std::uint64_t i = threadIdx.x; i < page.bytes; i += blockDim.x)
    page.begin[i] = page.content.byte(i);
}

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// Multiplies and adds for so long; `never` keeps the compiler from leaving that out.
__global__ void busy(std::uint64_t time_ns, float* never) {
  auto const begin = nanoseconds();
  float x = static_cast<float>(threadIdx.x);
  do {
    for (int i = 0; i < 256; ++i) x = fmaf(x, 0.999f, 1.0f);
  } while (nanoseconds() - begin < time_ns);
  if (x < 0) *never = x;
}

struct Release {
  void operator()(std::byte* memory) const { (void)cudaFree(memory); }
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};

using Stream = std::unique_ptr<CUstream_st, Release>;

/// The current device is each thread's own.
void use(int gpu) { require(cudaSetDevice(gpu), gpu, "cannot be used"); }

Stream make_stream(int gpu) {
  use(gpu);
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), gpu, "no stream");
  return Stream(stream);
}

/// Everything here is queued, so it returns while the pages still hold something else. Their
/// transfer may begin at once: the gather waits for the event, not this thread.
Ready queue_pages(int gpu, cudaStream_t stream, std::span<Filled const> pages, unsigned flags) {
  if (!pages.empty()) {
    void* list = nullptr;
    require(cudaMallocAsync(&list, pages.size_bytes(), stream), gpu, "no list of pages");
    require(cudaMemcpyAsync(list, pages.data(), pages.size_bytes(), cudaMemcpyHostToDevice, stream),
            gpu, "cannot write a list of pages");
    compute_pages<<<static_cast<unsigned>(pages.size()), threads, 0, stream>>>(
        static_cast<Filled const*>(list));
    require(cudaGetLastError(), gpu, "cannot compute pages");
    require(cudaFreeAsync(list, stream), gpu, "cannot free a list of pages");
  }
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | flags), gpu, "no event");
  Ready ready(event, Release{});
  require(cudaEventRecord(event, stream), gpu, "cannot record an event");
  return ready;
}

class GpuKvMemory : public KvMemory {
 public:
  GpuKvMemory(int gpu, std::uint64_t bytes) : gpu_(gpu), stream_(make_stream(gpu)) {
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes), gpu_,
            "no memory for a pool of " + std::to_string(bytes >> 20) + " MiB (--pool)");
    memory_.reset(static_cast<std::byte*>(memory));
  }

  [[nodiscard]] b10::Device device() const override { return b10::Device{gpu_}; }
  [[nodiscard]] std::byte* base() const override { return memory_.get(); }

  [[nodiscard]] Ready compute(std::span<Page const> pages) override {
    use(gpu_);
    std::vector<Filled> list;
    for (auto const& p : pages) list.push_back({base() + p.offset, p.bytes, p.content});
    return queue_pages(gpu_, stream_.get(), list, 0);
  }
  void fill(std::uint64_t offset, std::uint64_t bytes, std::byte value) override {
    use(gpu_);
    require(cudaMemsetAsync(base() + offset, static_cast<int>(value), bytes, stream_.get()), gpu_,
            "cannot fill pages");
  }
  void settle() override {
    require(cudaStreamSynchronize(stream_.get()), gpu_, "what was queued failed");
  }
  [[nodiscard]] std::span<std::byte const> read(std::uint64_t offset, std::uint64_t bytes,
                                                std::vector<std::byte>& buffer) const override {
    use(gpu_);
    if (buffer.size() < bytes) buffer.resize(bytes);
    require(cudaMemcpy(buffer.data(), base() + offset, bytes, cudaMemcpyDeviceToHost), gpu_,
            "cannot read pages");
    return std::span(buffer).first(bytes);
  }

 private:
  int gpu_;
  Stream stream_;
  std::unique_ptr<std::byte, Release> memory_{};
};

class Steps : public GpuSteps {
 public:
  explicit Steps(int gpu) : gpu_(gpu), stream_(make_stream(gpu)) {
    require(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, gpu), gpu,
            "does not say how large it is");
  }
  [[nodiscard]] Ready launch(std::span<Fill const> fills, b10::Duration time) override {
    use(gpu_);
    std::vector<Filled> list;
    for (auto const& f : fills)
      list.push_back({f.pool + f.page.offset, f.page.bytes, f.page.content});
    busy<<<static_cast<unsigned>(processors_), threads, 0, stream_.get()>>>(
        static_cast<std::uint64_t>(time.ns), nullptr);
    require(cudaGetLastError(), gpu_, "cannot begin a step");
    return queue_pages(gpu_, stream_.get(), list, cudaEventBlockingSync);
  }
  void wait(Ready const& step) override {
    use(gpu_);
    require(cudaEventSynchronize(step.get()), gpu_, "a step failed");
  }

 private:
  int gpu_;
  Stream stream_;
  int processors_ = 0;
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

std::unique_ptr<GpuSteps> make_gpu_steps(int gpu) { return std::make_unique<Steps>(gpu); }

}  // namespace demo
