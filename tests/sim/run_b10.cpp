#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_b10(Setup const& setup, Ground const& ground) {
  if (setup.shared) return run_b10_shared(setup, ground);
  if (setup.digested) return run_b10_digested(setup, ground);
  return World<B10<WatchedStaging>>(setup, ground).run();
}

}  // namespace campaign
