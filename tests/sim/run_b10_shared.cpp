#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_b10_shared(Setup const& setup, Ground const& ground) {
  return World<B10<SharedWatchedStaging>>(setup, ground).run();
}

}  // namespace campaign
