// Memory, streams, patterns and timing of the GPU benches. Programs that fail end with a sentence.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#include <b10/device/copy_spans.cuh>

#include "../report.hpp"

namespace b10::bench {

inline void require(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

using device::Direction;

/// splitmix64 of a word's number: random to every cache and compressor, known to whoever verifies.
__host__ __device__ inline std::uint64_t mixed(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9;
  return (i ^ i >> 27) * 0x94d049bb133111eb;
}
inline constexpr std::uint64_t poison = 0xeeeeeeeeeeeeeeee;
inline constexpr std::uint64_t sent = std::uint64_t{1} << 60;  ///< first word of a scatter's source

static __global__ void fill(std::uint64_t* words, std::size_t n, std::uint64_t first) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    words[i] = first == poison ? poison : mixed(first + i);
}
/// Counts words of the contiguous side that are not those of their span's slot.
static __global__ void check_gathered(std::uint64_t const* words, std::size_t n,
                                      std::uint32_t const* slots, std::size_t span_words,
                                      unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    if (words[i] != mixed(slots[i / span_words] * span_words + i % span_words)) atomicAdd(wrong, 1);
}
/// Counts words of the pool that are neither what was sent to their slot nor, elsewhere, poison.
static __global__ void check_scattered(std::uint64_t const* words, std::size_t n,
                                       std::uint32_t const* span_of_slot, std::uint32_t spans,
                                       std::size_t span_words, unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    std::uint32_t const span = span_of_slot[i / span_words];
    std::uint64_t const should =
        span < spans ? mixed(sent + span * span_words + i % span_words) : poison;
    if (words[i] != should) atomicAdd(wrong, 1);
  }
}

template <class T>
[[nodiscard]] T* allocate(std::size_t n) {
  void* p = nullptr;
  require(cudaMalloc(&p, n * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(p);
}
template <class T>
[[nodiscard]] T* allocate_pinned(std::size_t n) {
  void* p = nullptr;
  require(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocPortable), "cudaHostAlloc");
  return static_cast<T*>(p);
}
template <class T>
void upload(T* to, std::vector<T> const& from) {
  require(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
}

/// Two streams of a copy: kernels on one, DMA on the other.
struct Streams {
  explicit Streams(int priority) {
    for (auto* s : {&kernel, &dma})
      require(cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, priority), "stream");
  }
  cudaStream_t kernel{};
  cudaStream_t dma{};
};

/// Everything the methods copy from and to. Lives until the program ends, and so does its memory.
struct Rig {
  static constexpr std::size_t pool_bytes = std::size_t{4} << 30;
  static constexpr std::size_t bytes_max = std::size_t{512} << 20;
  static constexpr std::size_t spans_max = bytes_max / 512;
  static constexpr std::size_t ring = 8;
  static constexpr std::size_t slice_bytes_max = std::size_t{32} << 20;

  Rig() {
    for (auto* events : {&kernel_done, &dma_done}) {
      for (auto& e : *events)
        require(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
    }
  }

  std::byte* pool = allocate<std::byte>(pool_bytes);
  std::byte* flat = allocate<std::byte>(bytes_max);  ///< a scratch as large as the copy
  std::byte* scratch = allocate<std::byte>(ring * slice_bytes_max);
  std::byte* pinned = allocate_pinned<std::byte>(bytes_max);
  std::size_t table_bytes = device::SpanTable::bytes_max(2 * spans_max);
  std::byte* table = allocate_pinned<std::byte>(table_bytes);
  std::byte* slice_tables = allocate_pinned<std::byte>(table_bytes);
  std::uint32_t* slots = allocate<std::uint32_t>(spans_max);
  std::uint32_t* span_of_slot = allocate<std::uint32_t>(pool_bytes / 256);
  unsigned long long* wrong = allocate<unsigned long long>(1);
  std::vector<cudaEvent_t> kernel_done = std::vector<cudaEvent_t>(ring);
  std::vector<cudaEvent_t> dma_done = std::vector<cudaEvent_t>(ring);
};

/// Spans of one size on random slots of the pool.
struct Spans {
  Spans(Rig& rig, std::size_t bytes_of_each, std::size_t bytes_wanted)
      : span_bytes(bytes_of_each),
        count(bytes_wanted / bytes_of_each),
        slots(Rig::pool_bytes / bytes_of_each) {
    std::iota(slots.begin(), slots.end(), 0u);
    std::shuffle(slots.begin(), slots.end(), std::mt19937(42));
    std::vector<std::uint32_t> inverse(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i)
      inverse[slots[i]] = static_cast<std::uint32_t>(i);
    upload(rig.span_of_slot, inverse);
    slots.resize(count);
    upload(rig.slots, slots);
  }
  [[nodiscard]] std::byte* address(Rig const& rig, std::size_t i) const {
    return rig.pool + slots[i] * span_bytes;
  }
  [[nodiscard]] std::size_t bytes() const { return count * span_bytes; }

  std::size_t span_bytes;
  std::size_t count;
  std::vector<std::uint32_t> slots;
};

inline void prepare(Rig& rig, Spans const& spans, Direction direction, std::byte* contiguous) {
  bool const gather = direction == Direction::gather;
  fill<<<2048, 256>>>(reinterpret_cast<std::uint64_t*>(rig.pool), Rig::pool_bytes / 8,
                      gather ? 0 : poison);
  fill<<<2048, 256>>>(reinterpret_cast<std::uint64_t*>(contiguous), spans.bytes() / 8,
                      gather ? poison : sent);
  require(cudaDeviceSynchronize(), "fill");
}

/// Ends the program unless the first `count` spans, and nothing else, were copied since prepare().
inline void verify(Rig& rig, Spans const& spans, std::size_t count, Direction direction,
                   std::byte const* contiguous, char const* method) {
  require(cudaMemset(rig.wrong, 0, sizeof *rig.wrong), "memset");
  std::size_t const span_words = spans.span_bytes / 8;
  if (direction == Direction::gather) {
    check_gathered<<<2048, 256>>>(reinterpret_cast<std::uint64_t const*>(contiguous),
                                  count * span_words, rig.slots, span_words, rig.wrong);
  } else {
    std::size_t const words = Rig::pool_bytes / spans.span_bytes * span_words;
    check_scattered<<<2048, 256>>>(reinterpret_cast<std::uint64_t const*>(rig.pool), words,
                                   rig.span_of_slot, static_cast<std::uint32_t>(count), span_words,
                                   rig.wrong);
  }
  unsigned long long wrong = 0;
  require(cudaMemcpy(&wrong, rig.wrong, sizeof wrong, cudaMemcpyDeviceToHost), "verify");
  if (wrong == 0) return;
  std::fprintf(stderr, "%s copied %llu words wrongly (spans of %zu bytes, %s)\n", method, wrong,
               spans.span_bytes, direction == Direction::gather ? "gather" : "scatter");
  std::exit(1);
}

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// GB/s of one run of `f`, which starts and ends on streams.kernel; by events and by the host.
class Timer {
 public:
  Timer() {
    require(cudaEventCreate(&start_), "event");
    require(cudaEventCreate(&stop_), "event");
  }
  struct Seconds {
    double events;
    double host;
  };
  template <class F>
  [[nodiscard]] Seconds time(Streams const& streams, F&& f) {
    require(cudaDeviceSynchronize(), "before a run");
    double const begin = now_s();
    require(cudaEventRecord(start_, streams.kernel), "record");
    require(cudaStreamWaitEvent(streams.dma, start_), "wait");
    f();
    require(cudaEventRecord(stop_, streams.kernel), "record");
    require(cudaEventSynchronize(stop_), "run");
    double const host = now_s() - begin;
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start_, stop_), "elapsed");
    return {ms / 1e3, host};
  }

 private:
  cudaEvent_t start_{};
  cudaEvent_t stop_{};
};

}  // namespace b10::bench
