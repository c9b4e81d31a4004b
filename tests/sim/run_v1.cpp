#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

using b10::quarantine::None;
using b10::quarantine::StagingOnlyMs;

RunResult run_v1(Setup const& setup, Ground const& ground) {
  return setup.shared ? run_v1_shared(setup, ground)
                      : World<V1<WatchedStaging, StagingOnlyMs<8>>>(setup, ground).run();
}
RunResult run_v1_none(Setup const& setup, Ground const& ground) {
  return setup.shared ? run_v1_none_shared(setup, ground)
                      : World<V1<WatchedStaging, None>>(setup, ground).run();
}

}  // namespace campaign
