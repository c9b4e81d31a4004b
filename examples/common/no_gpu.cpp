// Stands in for gpu.cu in a build without b10::cuda: find_gpus() finds none, so that the rest is
// never asked for.
#include <stdexcept>

#include "gpu.hpp"

namespace demo {
namespace {

constexpr char const* why = "this build has no CUDA: configure it where CUDA 13 with nvcc is";

}  // namespace

Gpus find_gpus() { return {{}, why}; }

std::unique_ptr<KvMemory> make_gpu_memory(int, std::uint64_t) { throw std::runtime_error(why); }

std::unique_ptr<GpuSteps> make_gpu_steps(int) { throw std::runtime_error(why); }

}  // namespace demo
