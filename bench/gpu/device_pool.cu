#include "device_pool.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace b10::bench {

namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t blocks_max = 4096;

void require(cudaError_t error, int device, std::string const& what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error("GPU " + std::to_string(device) + ": " + what + ": " +
                           cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

unsigned blocks_for(std::uint64_t items, std::uint64_t per_block) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>((items + per_block - 1) / per_block, 1, blocks_max));
}

/// Seeds lie far apart, so that no place of one pool is a neighbour's place of another.
__device__ std::uint64_t hash(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t x = (place + seed) * 0x9e37'79b9'7f4a'7c15u;
  x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93u;
  return x ^ (x >> 29);
}

__device__ void report(Wrong* wrong, std::uint64_t words, std::uint64_t first) {
  if (words == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&wrong->words), words);
  atomicMin(reinterpret_cast<unsigned long long*>(&wrong->first), first);
}

__global__ void fill_words(std::uint64_t* pool, std::uint64_t words, std::uint64_t seed) {
  std::uint64_t const stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += stride)
    pool[i] = hash(seed, i);
}

__global__ void compare_words(std::uint64_t const* pool, std::uint64_t words, std::uint64_t seed,
                              Wrong* wrong) {
  std::uint64_t const stride = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t count = 0;
  std::uint64_t first = ~std::uint64_t{0};
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += stride) {
    if (pool[i] == hash(seed, i)) continue;
    ++count;
    first = i < first ? i : first;
  }
  report(wrong, count, first);
}

__global__ void take_words(std::uint64_t* pool, Landing const* landings, std::uint64_t n,
                           std::uint64_t source_seed, std::uint64_t own_seed, Wrong* wrong) {
  unsigned const lane = threadIdx.x % 32;
  std::uint64_t const warps = std::uint64_t{gridDim.x} * (blockDim.x / 32);
  std::uint64_t count = 0;
  std::uint64_t first = ~std::uint64_t{0};
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32; k < n;
       k += warps) {
    Landing const landing = landings[k];
    for (std::uint64_t i = lane; i < landing.words; i += 32) {
      std::uint64_t const place = landing.to + i;
      if (pool[place] != hash(source_seed, landing.from + i)) {
        ++count;
        first = place < first ? place : first;
      }
      pool[place] = hash(own_seed, place);
    }
  }
  report(wrong, count, first);
}

/// What earlier calls on this thread have left, such as "not ready", is not the next launch's.
void forget_errors() { (void)cudaGetLastError(); }

std::uint64_t* as_words(std::byte* data) { return reinterpret_cast<std::uint64_t*>(data); }

template <class T>
T* allocate(int device, std::uint64_t bytes, char const* what) {
  void* memory = nullptr;
  auto const error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) {
    std::size_t free = 0;
    std::size_t total = 0;
    (void)cudaMemGetInfo(&free, &total);
    require(error, device,
            "cannot allocate " + std::to_string(bytes >> 20) + " MiB for " + what + ", " +
                std::to_string(free >> 20) + " of " + std::to_string(total >> 20) + " are free");
  }
  return static_cast<T*>(memory);
}

}  // namespace

DeviceLandings::DeviceLandings(int device, std::span<Landing const> landings) {
  require(cudaSetDevice(device), device, "cannot use it");
  data_ = allocate<Landing>(device, std::max<std::size_t>(landings.size_bytes(), 1), "landings");
  require(cudaMemcpy(data_, landings.data(), landings.size_bytes(), cudaMemcpyHostToDevice), device,
          "cannot write landings");
}

DeviceLandings::~DeviceLandings() { (void)cudaFree(data_); }

DevicePool::DevicePool(int device, std::uint64_t bytes, std::uint64_t seed)
    : device_(device), bytes_(bytes), seed_(seed) {
  require(cudaSetDevice(device_), device_, "cannot use it");
  data_ = allocate<std::byte>(device_, bytes_, "a pool");
  wrong_ = allocate<Wrong>(device_, sizeof(Wrong), "a counter");
  fill();
}

DevicePool::~DevicePool() {
  (void)cudaFree(wrong_);
  (void)cudaFree(data_);
}

void DevicePool::fill() {
  require(cudaSetDevice(device_), device_, "cannot use it");
  forget_errors();
  fill_words<<<blocks_for(words(), threads), threads>>>(as_words(data_), words(), seed_);
  require(cudaGetLastError(), device_, "cannot fill a pool");
  require(cudaStreamSynchronize(nullptr), device_, "filling a pool failed");
}

void DevicePool::begin_count() {
  require(cudaSetDevice(device_), device_, "cannot use it");
  Wrong const none{};
  require(cudaMemcpy(wrong_, &none, sizeof none, cudaMemcpyHostToDevice), device_,
          "cannot reset the counter");
  forget_errors();
}

Wrong DevicePool::end_count(char const* what) {
  require(cudaGetLastError(), device_, std::string("cannot ") + what);
  require(cudaStreamSynchronize(nullptr), device_, std::string("failed to ") + what);
  Wrong found{};
  require(cudaMemcpy(&found, wrong_, sizeof found, cudaMemcpyDeviceToHost), device_,
          "cannot read the counter");
  return found;
}

Wrong DevicePool::compare() {
  begin_count();
  compare_words<<<blocks_for(words(), threads), threads>>>(as_words(data_), words(), seed_, wrong_);
  return end_count("compare a pool");
}

Wrong DevicePool::take(DeviceLandings const& all, std::size_t first, std::size_t count,
                       std::uint64_t source_seed) {
  begin_count();
  take_words<<<blocks_for(count, threads / 32), threads>>>(as_words(data_), all.data() + first,
                                                           count, source_seed, seed_, wrong_);
  return end_count("compare what landed");
}

void DevicePool::spoil(std::uint64_t word) {
  require(cudaSetDevice(device_), device_, "cannot use it");
  require(cudaMemset(data_ + word * word_bytes, 0, word_bytes), device_, "cannot spoil a word");
  require(cudaStreamSynchronize(nullptr), device_, "spoiling a word failed");
}

}  // namespace b10::bench
