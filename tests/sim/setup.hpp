#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <b10/copy/fake_control.hpp>
#include <b10/sim/name_messages.hpp>
#include <b10/sim/random.hpp>
#include <b10/sim/timeline.hpp>
#include <b10/time.hpp>
#include <b10/transport/sim.hpp>

#include "sim/pool.hpp"
#include "sim/schedule.hpp"

namespace campaign {

/// What is asked of one run.
struct RunOptions {
  std::uint64_t seed = 1;
  bool keep_journal = false;
  std::vector<bool> without{};  ///< faults that are left out, by their place in the schedule
  std::uint32_t jobs_max = ~0u;
  bool corrupt_payload = false;                  ///< flip bits that only a digest could find
  std::optional<std::pair<Step, Action>> aim{};  ///< faults of this kind besides
};

/// All that a run draws before it starts: shape, workload, network and faults.
struct Setup {
  std::uint64_t seed = 1;  ///< of what the run draws on its way
  bool corrupt_payload = false;
  std::size_t nodes = 2;
  std::uint32_t jobs = 48;
  std::uint32_t concurrency = 4;
  std::uint32_t pages_min = 1;  ///< of one transfer
  std::uint32_t pages_max = 12;
  bool whole_pages = false;       ///< never parts of them
  std::uint32_t splinters = 600;  ///< one of so many transfers is cut into single words
  std::uint64_t slices = 8;
  std::uint64_t slice_bytes[Memory::nodes_max]{};
  unsigned in_flight = 4;
  b10::copy::FakeControl::Options copies{};
  std::uint64_t quarantine_bytes_max = 0;
  bool ample = false;   ///< nothing is short, so that healthy pairs must succeed
  bool shared = false;  ///< payloads go into the receiver's staging where both ends share theirs
  bool shares[Memory::nodes_max]{};
  bool digested = false;    ///< by b10 alone: payloads carry digests, and their bits flip too
  bool cpu_copies = false;  ///< a process that is stopped stops its copies too
  b10::Duration deadline_min{};
  b10::Duration deadline_max{};
  b10::transport::sim::NetworkOptions network{};
  std::vector<Fault> faults{};
  b10::sim::Timeline::Chooser* chooser = nullptr;  ///< of what happens first while jobs run
};

[[nodiscard]] inline Setup draw_setup(RunOptions const& o) {
  using namespace b10;
  using transport::sim::LongMessages;
  sim::Random random(o.seed);
  Setup s;
  s.seed = o.seed;
  s.corrupt_payload = o.corrupt_payload;
  s.ample = random.chance(1, 3);
  s.nodes = s.ample ? 4 : 2 + random.below(3);
  s.jobs = 16 + random.below(64);
  s.concurrency = random.chance(1, 4) ? 1 : 2 + random.below(8);
  s.pages_max = 1 + random.below(14);
  s.slices = s.ample ? 96 : 2 + random.below(14);
  constexpr std::uint64_t sizes[] = {1024, 1024, 1024, 768, 512};
  for (auto& bytes : s.slice_bytes) bytes = sizes[random.below(5)];
  s.in_flight = 1 + random.below(4);
  s.copies.slots = s.ample || random.chance(1, 2) ? 64 : 2 + random.below(4);
  bool const unlimited = s.ample || random.chance(1, 2);
  s.quarantine_bytes_max = unlimited ? ~std::uint64_t{0} : 0;
  s.deadline_min = s.ample ? milliseconds(20) : milliseconds(2);
  s.deadline_max = milliseconds(s.ample ? 40 : 6 + random.below(20));

  auto& n = s.network;
  n.seed = random.next();
  n.latency_min = microseconds(1);
  n.latency_max = microseconds(random.between(std::uint64_t{2}, std::uint64_t{60}) & 0xff);
  constexpr std::uint64_t eager[] = {96, 300, 8000};
  n.eager_bytes = eager[random.below(3)];
  n.long_messages = static_cast<LongMessages>(random.below(3));
  n.pieces_max = 1 + random.below(5);
  n.silence = milliseconds(random.chance(1, 2) ? 3 + random.below(10) : 100);
  n.namer = &sim::name_messages;
  n.keep_journal = o.keep_journal;

  auto const faults = random.chance(1, 16) ? 0 : 1 + random.below(10);
  std::vector<Fault> all;
  for (std::uint32_t i = 0; i < faults; ++i) all.push_back(draw_fault(random, s.jobs));
  if (o.aim)
    for (int i = 0; i < 6; ++i)
      all.push_back(aim_fault(random, o.aim->first, o.aim->second, s.jobs));
  s.cpu_copies = random.chance(1, 2);
  s.shared = random.chance(1, 4);
  for (Fault const& f : all) {  // aimed at what seldom happens: it shall happen
    if (needs_long_lists(f.step)) s.splinters = 12;
    if (needs_shared_staging(f.step)) s.shared = true;
  }
  // Late copies into views that were given up rarely meet anybody there, so some runs have many.
  if (s.shared && random.chance(1, 3))
    for (int i = 0; i < 4; ++i)
      all.push_back(aim_fault(random, Step::gather_started, Action::hold_copy, s.jobs));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i >= o.without.size() || !o.without[i]) s.faults.push_back(all[i]);
  s.digested = random.chance(1, 4) && !s.shared;
  for (auto& shares : s.shares) shares = s.shared && random.chance(7, 8);
  s.jobs = std::min(s.jobs, o.jobs_max);  // which leaves the faults as they are
  return s;
}

}  // namespace campaign
