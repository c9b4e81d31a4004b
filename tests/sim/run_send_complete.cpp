#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/world.hpp"

namespace campaign {

RunResult run_send_complete(Setup const& setup, Ground const& ground) {
  auto s = setup;
  s.shared = s.digested = false;
  return World<SendCompleteB10>(s, ground).run();
}

}  // namespace campaign
