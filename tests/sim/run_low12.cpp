#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_low12(Setup const& setup, Ground const& ground) {
  auto s = setup;
  s.shared = s.digested = false;
  return World<Low12B10>(s, ground).run();
}

}  // namespace campaign
