#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_b10(Setup const& setup, Ground const& ground) {
  return setup.shared ? run_b10_shared(setup, ground)
                      : World<B10<WatchedStaging>>(setup, ground).run();
}

}  // namespace campaign
