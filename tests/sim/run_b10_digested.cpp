#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_b10_digested(Setup const& setup, Ground const& ground) {
  auto s = setup;
  s.corrupt_payload = true;
  return World<B10<WatchedStaging, b10::completion::Digested>>(s, ground).run();
}

}  // namespace campaign
