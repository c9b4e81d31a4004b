// KV in GPU memory.
#include "gpu_composition.hpp"
#include "run.hpp"

namespace mini {

int run_gpu(Options const& options, std::vector<std::string> program) {
  return run_as<GpuComposition>(options, std::move(program));
}

}  // namespace mini
