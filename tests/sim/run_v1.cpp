#include "sim/run.hpp"

#include <b10/v1.hpp>

#include "sim/world.hpp"

namespace campaign {
namespace {

template <class Quarantine>
RunResult run(RunOptions const& options, Ground const& ground) {
  using V1 = b10::v1::Transceiver<WatchedStaging, Quarantine, b10::transport::Sim>;
  return World<V1>(draw_setup(options), ground).run();
}

}  // namespace

RunResult run_v1(RunOptions const& options, Ground const& ground) {
  return run<b10::quarantine::StagingOnlyMs<8>>(options, ground);
}
RunResult run_v1_none(RunOptions const& options, Ground const& ground) {
  return run<b10::quarantine::None>(options, ground);
}

}  // namespace campaign
