// Stands in for gpu.cpp in a build without b10::cuda.
#include <stdexcept>

#include "common/gpu.hpp"
#include "run.hpp"

namespace mini {

int run_gpu(Options const&, std::vector<std::string>) {
  throw std::runtime_error("--memory is 'gpu', but there is no GPU: " + demo::find_gpus().why_none);
}

}  // namespace mini
