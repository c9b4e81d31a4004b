#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_no_quarantine(Setup const& setup, Ground const& ground) {
  auto s = setup;
  s.digested = false;
  return World<NoQuarantineB10>(s, ground).run();
}

}  // namespace campaign
