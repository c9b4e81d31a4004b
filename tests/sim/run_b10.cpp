#include "sim/run.hpp"

#include <b10/completion/copy_event.hpp>
#include <b10/quarantine/ttl.hpp>
#include <b10/tag/hashed.hpp>

#include "sim/world.hpp"

namespace campaign {

RunResult run_b10(RunOptions const& options, Ground const& ground) {
  using B10 = b10::BasicTransceiver<WatchedStaging, b10::tag::Hashed, b10::completion::CopyEvent,
                                    b10::quarantine::TtlMs<40>, b10::transport::Sim>;
  return World<B10>(draw_setup(options), ground).run();
}

}  // namespace campaign
