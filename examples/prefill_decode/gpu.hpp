// What the demo does with GPUs apart from moving bytes between them. In builds without b10::cuda
// there are none (no_gpu.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kv_memory.hpp"

namespace demo {

/// GPUs that this process can use.
struct Gpus {
  std::vector<std::string> names{};
  std::string why_none{};
};

[[nodiscard]] Gpus find_gpus();

/// `gpu` is a CUDA ordinal.
[[nodiscard]] std::unique_ptr<KvMemory> make_gpu_memory(int gpu, std::uint64_t bytes);

/// A pool's memory where it is wanted.
[[nodiscard]] inline std::unique_ptr<KvMemory> make_memory(b10::Device device,
                                                           std::uint64_t bytes) {
  if (device == b10::Device::host) return std::make_unique<HostKvMemory>(bytes);
  return make_gpu_memory(to_integer(device), bytes);
}

}  // namespace demo
