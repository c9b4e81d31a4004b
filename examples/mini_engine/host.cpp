// KV in host memory.
#include "composition.hpp"
#include "run.hpp"

namespace mini {

int run_host(Options const& options, std::vector<std::string> program) {
  return run_as<HostComposition>(options, std::move(program));
}

}  // namespace mini
