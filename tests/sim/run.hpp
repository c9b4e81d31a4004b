#pragma once

#include <memory>
#include <vector>

#include <b10/sim/journal.hpp>

#include "sim/graveyard.hpp"
#include "sim/pool.hpp"
#include "sim/setup.hpp"
#include "sim/tally.hpp"

namespace campaign {

struct RunResult {
  Tally tally{};
  Setup setup{};
  std::vector<b10::sim::Event> events{};
};

/// What all runs of a process share.
struct Ground {
  Memory memory{};
  std::shared_ptr<Graveyard> graveyard = std::make_shared<Graveyard>();
};

using Run = RunResult (*)(Setup const&, Ground const&);

/// The reference: hashed tags, RESULT after copy events, everything quarantined together.
RunResult run_b10(Setup const& setup, Ground const& ground);
/// v1 as hardened: tags of 12 bits, success when sent, staging alone sits out for 8 ms.
RunResult run_v1(Setup const& setup, Ground const& ground);
/// v1 plain: the same, and nothing sits out.
RunResult run_v1_none(Setup const& setup, Ground const& ground);

/// The same with Setup::digested: bits of payloads flip too, and digests find them.
RunResult run_b10_digested(Setup const& setup, Ground const& ground);
/// The same with Setup::shared: payloads by the sender's copies.
RunResult run_b10_shared(Setup const& setup, Ground const& ground);
RunResult run_v1_shared(Setup const& setup, Ground const& ground);
RunResult run_v1_none_shared(Setup const& setup, Ground const& ground);

/// The reference but for one policy, and without digests whatever the setup says; the first two
/// without shared staging, too.
RunResult run_send_complete(Setup const& setup, Ground const& ground);
RunResult run_low12(Setup const& setup, Ground const& ground);
RunResult run_no_quarantine(Setup const& setup, Ground const& ground);

}  // namespace campaign
