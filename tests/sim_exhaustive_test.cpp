// Every order in which messages, copies and turns of one small transfer can happen, alone and with
// every single fault at every step, in virtual time; K1 to K8 are checked in each. Under faults
// orders that differ from the usual one more than a few times are left out: after a fault nodes
// reconnect and restart, and orders without end open up.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/coverage.hpp"
#include "sim/run.hpp"
#include "sim/tally.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace b10;
using namespace campaign;

namespace {

/// Goes through all sequences of choices, depth first, but for those that differ from the first
/// choice more than `deviations` times.
class Orders final : public sim::Timeline::Chooser {
 public:
  explicit Orders(unsigned deviations = ~0u) : deviations_(deviations) {}

  std::size_t choose(std::size_t count) override {
    if (depth_ == path_.size()) path_.push_back({0, count});
    return path_[depth_++].chosen;
  }
  /// False after the last.
  bool next() {
    depth_ = 0;
    for (; !path_.empty(); path_.pop_back()) {
      unsigned before = 0;
      for (auto const& c : path_) before += c.chosen > 0;
      auto& last = path_.back();
      before -= last.chosen > 0;
      if (before < deviations_ && ++last.chosen < last.count) return true;
    }
    return false;
  }

 private:
  struct Choice {
    std::size_t chosen;
    std::size_t count;
  };
  unsigned deviations_;
  std::vector<Choice> path_{};
  std::size_t depth_ = 0;
};

/// One transfer of so many chunks, of which two are in flight. Everything takes no time, so all
/// that is under way may happen in any order, and nodes may be turned at once or later.
Setup small(std::uint32_t chunks, bool shared) {
  Setup s;
  s.jobs = s.concurrency = 1;
  s.pages_min = s.pages_max = chunks;
  s.whole_pages = true;
  s.splinters = ~0u;
  for (auto& bytes : s.slice_bytes) bytes = page_bytes;
  s.in_flight = 2;
  s.copies.time_min = s.copies.time_max = Duration{};
  s.copies.pieces_max = 1;
  s.quarantine_bytes_max = ~std::uint64_t{0};
  s.ample = true;
  s.deadline_min = s.deadline_max = milliseconds(4);
  s.shared = shared;
  for (auto& shares : s.shares) shares = shared;
  s.network.latency_min = s.network.latency_max = Duration{};
  s.network.pieces_max = 1;
  s.network.silence = milliseconds(2);
  s.network.namer = &sim::name_messages;
  return s;
}

struct Explored {
  std::uint64_t faults = 0;  ///< kinds, steps, occurrences and parameters
  Tally tally{};
  std::string first_breach{};

  [[nodiscard]] std::uint64_t landed() const {
    auto const it = tally.sent.find({Status::landed, Reason::none});
    return it == tally.sent.end() ? 0 : it->second;
  }
};

/// All orders of one setup.
void explore(Run run, Setup s, unsigned deviations, Ground const& ground, Explored& sum) {
  Orders orders(deviations);
  s.chooser = &orders;
  do {
    auto const r = run(s, ground);
    sum.tally.add(r.tally);
    if (r.tally.breached() == 0 || !sum.first_breach.empty()) continue;
    for (auto const& f : s.faults) sum.first_breach += to_string(f) + "; ";
    for (auto const& d : r.tally.details) sum.first_breach += d + "; ";
  } while (orders.next());
}

/// Every fault that can strike a run without faults: each kind at each time of each step, and those
/// of messages with two parameters.
std::vector<Fault> single_faults(Setup const& s, Ground const& ground) {
  auto const calm = run_b10(s, ground);
  std::vector<Fault> all;
  for_each_cell([&](Cell const& cell) {
    auto const [step, action] = cell;
    auto const times = static_cast<std::uint32_t>(calm.tally.steps[static_cast<std::size_t>(step)]);
    if (!can_occur(step, action)) return;
    for (std::uint32_t skip = 0; skip < times; ++skip)
      for (std::uint64_t param = 1; param <= (is_message_fault(action) ? 2u : 1u); ++param)
        all.push_back({step, action, skip, param});
  });
  return all;
}

/// All orders of a transfer of so many chunks, in both kinds of staging, each with every single
/// fault.
Explored explore_faults(Run run, std::uint32_t chunks, unsigned deviations) {
  Ground const ground;
  Explored sum;
  for (bool const shared : {false, true}) {
    auto s = small(chunks, shared);
    for (auto const& fault : single_faults(s, ground)) {
      ++sum.faults;
      s.faults = {fault};
      explore(run, s, deviations, ground, sum);
    }
  }
  return sum;
}

void check_all_land(std::uint32_t chunks, unsigned deviations, std::uint64_t orders_at_least) {
  Ground const ground;
  for (bool const shared : {false, true}) {
    Explored sum;
    explore(run_b10, small(chunks, shared), deviations, ground, sum);
    INFO(chunks << " chunks, shared staging " << shared << ": " << sum.tally.runs << " orders; "
                << sum.first_breach);
    CHECK(sum.tally.breached() == 0);
    CHECK(sum.landed() == sum.tally.runs);
    CHECK(sum.tally.runs >= orders_at_least);
    CHECK(sum.tally.bytes == sum.tally.runs * chunks * page_bytes);
  }
}
void check_faults(std::uint32_t chunks, unsigned deviations, std::uint64_t runs_at_least) {
  auto const sum = explore_faults(run_b10, chunks, deviations);
  INFO(chunks << " chunks: " << sum.faults << " faults, " << sum.tally.runs << " runs, "
              << sum.landed() << " landed; " << sum.first_breach);
  CHECK(sum.tally.breached() == 0);
  CHECK(sum.tally.runs >= runs_at_least);
  CHECK(sum.landed() > 0);
  CHECK(sum.landed() < sum.tally.runs);
}

constexpr unsigned all_orders = ~0u;

}  // namespace

TEST_CASE("One transfer of 1 to 3 chunks lands exactly, in whatever order things happen",
          "[sim][exhaustive]") {
  check_all_land(1, all_orders, 1);
  check_all_land(2, all_orders, 100);
  check_all_land(3, 4, 1'000);
}

TEST_CASE("One transfer of 1 to 3 chunks keeps every rule under every single fault",
          "[sim][exhaustive]") {
  // A sanitizer takes ten times as long and needs no other order to see a fault of memory.
  constexpr unsigned fewer = support::sanitized ? 1 : 0;
  check_faults(1, 2 - fewer, support::sanitized ? 100 : 10'000);
  check_faults(2, 1 - fewer, support::sanitized ? 100 : 5'000);
  check_faults(3, 1 - fewer, support::sanitized ? 100 : 5'000);
}

TEST_CASE("The same orders and faults find a v1 set corrupting", "[sim][exhaustive][v1]") {
  auto const sum = explore_faults(run_v1_none, 2, 0);
  INFO(sum.tally.runs << " runs, " << sum.tally.breached() << " breaches");
  CHECK(corrupting_kinds(sum.tally) >= 3);
}

// Minutes: b10_sim_tests "[full]".
TEST_CASE("All orders of three chunks, and more orders under every single fault", "[.][full]") {
  check_all_land(3, all_orders, 50'000);
  for (std::uint32_t chunks = 1; chunks <= 3; ++chunks) check_faults(chunks, 2, 10'000);
}
