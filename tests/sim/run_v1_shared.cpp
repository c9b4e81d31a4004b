#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

using b10::quarantine::None;
using b10::quarantine::StagingOnlyMs;

RunResult run_v1_shared(Setup const& setup, Ground const& ground) {
  return World<V1<SharedWatchedStaging, StagingOnlyMs<8>>>(setup, ground).run();
}
RunResult run_v1_none_shared(Setup const& setup, Ground const& ground) {
  return World<V1<SharedWatchedStaging, None>>(setup, ground).run();
}

}  // namespace campaign
