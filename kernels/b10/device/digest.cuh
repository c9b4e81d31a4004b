#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include <b10/device/digest.hpp>

namespace b10::device {

inline constexpr int digest_threads = 512;

/// b10::digest_word (b10/digest.hpp) of word `i`; host code cannot be called from here.
__device__ inline std::uint64_t mix_word(std::uint64_t word, std::uint64_t i) {
  std::uint64_t x = word ^ ((i + 1) * 0x9e37'79b9'7f4a'7c15u);
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
  return x ^ (x >> 31);
}

/// The sum of `mine` over the block, in its first thread.
template <int threads>
__device__ std::uint64_t block_sum(std::uint64_t mine) {
  __shared__ std::uint64_t of_warp[threads / 32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  std::uint64_t sum = 0;
  if (threadIdx.x == 0)
    for (std::uint64_t const s : of_warp) sum += s;
  return sum;
}

/// Each block writes its part of the b10::Digest of `bytes` bytes, of which the first is that of
/// word `first_word` of the chunk. `from` is aligned to 8. Grid: digest_partials(bytes) blocks.
template <int threads>  // a template may be in many objects of one program
__global__ void __launch_bounds__(threads)
    digest_words(std::byte const* from, std::uint64_t bytes, std::uint64_t first_word,
                 std::uint64_t* partials) {
  auto const* const words = reinterpret_cast<std::uint64_t const*>(from);
  std::uint64_t const count = bytes / sizeof(std::uint64_t);
  std::uint64_t const first = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  std::uint64_t const step = gridDim.x * std::uint64_t{threads};
  std::uint64_t sum = 0;
#pragma unroll 4
  for (std::uint64_t i = first; i < count; i += step) sum += mix_word(words[i], first_word + i);
  if (first == 0 && bytes % sizeof(std::uint64_t) != 0) {
    std::uint64_t last = 0;
    for (std::uint64_t i = count * sizeof(std::uint64_t); i < bytes; ++i)
      last |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * (i % 8));
    sum += mix_word(last, first_word + count);
  }
  sum = block_sum<threads>(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// Linked::digest for engines built by nvcc.
[[nodiscard]] inline cudaError_t launch_digest(std::byte const* from, std::uint64_t bytes,
                                               std::uint64_t first_word, std::uint64_t* partials,
                                               cudaStream_t stream) noexcept {
  if (bytes == 0) return cudaSuccess;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(digest_partials(bytes));
  config.blockDim = dim3(digest_threads);
  config.stream = stream;
  auto const error =
      cudaLaunchKernelEx(&config, digest_words<digest_threads>, from, bytes, first_word, partials);
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return error;
}

}  // namespace b10::device
