// Sessions in campaigns over the simulated network: random requests, faults, cancels, kills.
#include "session/sim_campaign.hpp"

#include <cstdint>
#include <string>

#include "support/catch.hpp"

using namespace support;

namespace {

/// A failing seed names itself: SessionCampaign(seed, sick_pair).run() repeats it exactly.
SessionCampaign::Counts campaign(std::uint64_t first, std::uint64_t seeds, bool sick_pair) {
  SessionCampaign::Counts sum;
  for (auto seed = first; seed < first + seeds; ++seed) {
    auto const c = SessionCampaign(seed, sick_pair).run();
    for (auto const& breach : c.breaches) FAIL_CHECK("seed " << seed << ": " << breach);
    sum.landed += c.landed;
    sum.cancelled += c.cancelled;
    sum.failed += c.failed;
    sum.kills += c.kills;
    sum.stops += c.stops;
    sum.rules += c.rules;
  }
  return sum;
}

}  // namespace

TEST_CASE("R42 under random faults, cancels and kills sessions keep K1 to K7",
          "[session][sim][R42][K1][K2][K3][K4][K5][K6]") {
  auto const sum = campaign(1, 60, false);
  // The campaign is one: each kind of thing has happened, often.
  CHECK(sum.landed > 500);
  CHECK(sum.cancelled > 30);
  CHECK(sum.failed > 50);
  CHECK(sum.kills > 10);
  CHECK(sum.stops > 10);
  CHECK(sum.rules > 20);
}

TEST_CASE(
    "R42 sessions of a healthy pair land beside cancelled ones and while another pair is sick",
    "[session][sim][R42][K8]") {
  auto const sum = campaign(1400, 40, true);
  CHECK(sum.landed > 300);
  CHECK(sum.cancelled > 100);
  CHECK(sum.failed > 30);
}
