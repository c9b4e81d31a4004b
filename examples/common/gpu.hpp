// What the examples do with GPUs apart from moving bytes between them. In builds without b10::cuda
// there are none (no_gpu.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <b10/time.hpp>

#include "kv_memory.hpp"

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

/// The compute stage of an engine: steps of a model, one after the other on a stream. Steps are
/// queued by one thread and waited for by another. Throws std::runtime_error when the GPU fails.
class GpuSteps {
 public:
  GpuSteps() = default;
  GpuSteps(GpuSteps const&) = delete;
  GpuSteps& operator=(GpuSteps const&) = delete;
  virtual ~GpuSteps() = default;

  struct Fill {
    std::byte* pool;
    Page page;
  };
  /// Queues a step: it keeps every multiprocessor busy for `time`, then writes the pages. What is
  /// returned fires when they hold their content.
  [[nodiscard]] virtual Ready launch(std::span<Fill const> fills, b10::Duration time) = 0;
  /// Until a step of this object has ended.
  virtual void wait(Ready const& step) = 0;
};

[[nodiscard]] std::unique_ptr<GpuSteps> make_gpu_steps(int gpu);

}  // namespace demo
