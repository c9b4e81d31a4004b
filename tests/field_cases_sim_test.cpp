// Failures that people have met elsewhere, each under its number, between nodes of a simulated
// network: processes that die, restart and stop, messages that come twice, late or in another
// order.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sim_nodes.hpp"

using namespace b10;
using support::SimNodes;
using transport::sim::MessageFault;

namespace {

bool ended(SimNodes<>& n, Transfer const& t) {
  return n.until([&] { return t.outcome().has_value(); });
}
void expect_exact(SimNodes<>& n, std::size_t from, PeerId peer, std::size_t to,
                  std::uint64_t request, std::size_t first) {
  auto const g = n.grant(to, request, first, 10);
  auto const t = n.write(from, peer, to, request, first, 10);
  REQUIRE(ended(n, t));
  INFO(t.outcome()->why);
  CHECK(t.outcome()->ok());
  CHECK(n.equal(from, to, first, 10));
}

}  // namespace

TEST_CASE("C03 of two writers under one grant one dies: pages come back when the other has stopped",
          "[field][sim][C03]") {
  SimNodes n(3);  // two prefill ranks, then decode
  PeerId const peers[] = {n.connect(0, 2), n.connect(1, 2)};
  auto g = std::make_optional(n.grant(2, 1, 0, 12));
  bool const dies = GENERATE(true, false);
  if (dies) {
    n.network->add({.fault = MessageFault::drop,
                    .kind = MessageKind::data,
                    .from = sim::NodeId{0},
                    .times = 9});
    n.nodes[2]->copies->add(
        {.fault = copy::CopyFault::hold, .direction = copy::Direction::scatter});
  }
  auto const first = n.write(0, peers[0], 2, 1, 0, 6);
  auto const second = n.write(1, peers[1], 2, 1, 6, 6);
  if (!dies) {
    REQUIRE(ended(n, first));
    REQUIRE(ended(n, second));
    CHECK(first.outcome()->ok());
    CHECK(second.outcome()->ok());
    CHECK((n.equal(0, 2, 0, 6) && n.equal(1, 2, 6, 6)));
    CHECK(g->revoke({}));
    return;
  }
  REQUIRE(n.until([&] { return n.nodes[2]->copies->pending() == 1; }));
  n.kill(0);
  std::optional<Outcome> told;
  REQUIRE(n.until([&] { return (told = g->next({})).has_value(); }));
  CHECK_FALSE(told->ok());
  CHECK_FALSE(g->revoke({}));  // the other's scatter is in the middle
  n.advance(milliseconds(20));
  CHECK_FALSE(g->revoke({}));
  CHECK(n.nodes[2]->copies->touches(copy::Direction::scatter, n.nodes[2]->block(6), 6 * n.span));
  n.nodes[2]->copies->release_all();
  REQUIRE(n.until([&] { return g->revoke({}).has_value(); }));
  CHECK(n.nodes[2]->copies->pending() == 0);
}

TEST_CASE("C17 a peer that restarts at its address costs what was under way, once, and is met anew",
          "[field][sim][C17]") {
  SimNodes n;
  auto const peer = n.connect(0, 1);
  expect_exact(n, 0, peer, 1, 1, 0);
  SECTION("between two transfers") { n.restart(1); }
  SECTION("in the middle of one") {
    n.network->add({.fault = MessageFault::drop, .kind = MessageKind::data});
    auto const g = n.grant(1, 2, 0, 10);
    auto const t = n.write(0, peer, 1, 2, 0, 10, seconds(100));
    n.advance(milliseconds(1));
    n.restart(1);
    REQUIRE(ended(n, t));
    CHECK_FALSE(t.outcome()->ok());
    CHECK(n.nodes[0]->b10->metrics().sent.failed() == 1);
  }
  SECTION("twice within 100 ms") {
    n.restart(1);
    n.advance(milliseconds(40));
    n.restart(1);
    n.advance(milliseconds(40));
  }
  // The first transfer after a restart succeeds, or is tried again inside.
  expect_exact(n, 0, peer, 1, 3, 20);
  CHECK(n.nodes[0]->b10->metrics().sent.landed.get() == 2);
}

TEST_CASE(
    "C18 while decode nodes restart in turn only transfers with them fail, and no state stays",
    "[field][sim][C18]") {
  SimNodes n(4);  // two prefill, two decode
  PeerId peers[2][2];
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t d = 0; d < 2; ++d) peers[p][d] = n.connect(p, 2 + d);
  std::uint64_t request = 0;
  for (std::size_t round = 0; round < 10; ++round) {
    auto const victim = round % 2;
    std::vector<Grant> grants;
    std::vector<Transfer> transfers[2];
    ++request;
    for (std::size_t d = 0; d < 2; ++d) {
      grants.push_back(n.grant(2 + d, request, 0, 40));
      for (std::size_t p = 0; p < 2; ++p)
        transfers[d].push_back(n.write(p, peers[p][d], 2 + d, request, 20 * p, 20, seconds(5)));
    }
    n.advance(microseconds(50 + 20 * static_cast<std::int64_t>(round)));
    grants.clear();
    n.restart(2 + victim);
    grants.push_back(n.grant(3 - victim, ++request, 0, 40));
    for (auto const& side : transfers)
      for (auto const& t : side) REQUIRE(n.until([&] { return t.outcome().has_value(); }));
    for (std::size_t p = 0; p < 2; ++p)
      for (std::size_t d = 0; d < 2; ++d) expect_exact(n, p, peers[p][d], 2 + d, ++request, 60);
  }
  n.advance(seconds(125));
  for (auto const& node : n.nodes) {
    auto const& m = node->b10->metrics();
    CHECK(m.generations_penned.get() == 0);
    CHECK(m.tags_quarantined.get() == 0);
    CHECK(m.staging_free.get() == m.staging_total.get());
  }
}

TEST_CASE(
    "C23 a transfer that was cancelled while it waited for a connection never reads its pages",
    "[field][sim][C23]") {
  SimNodes n;
  auto const peer = n.connect(0, 1);
  n.advance(milliseconds(1));
  n.network->cut("b");
  n.network->lose_greetings("b", 1000);  // attempts to reconnect hang
  n.advance(milliseconds(1));
  auto const g = n.grant(1, 1, 0, 10);
  auto const before = n.nodes[1]->pool;
  auto const t = n.write(0, peer, 1, 1, 0, 10, seconds(100));
  n.advance(milliseconds(100));
  CHECK_FALSE(t.outcome());
  t.cancel();
  REQUIRE(ended(n, t));
  CHECK(t.outcome()->sources_quiescent);
  auto const gathers = n.nodes[0]->copies->pending();
  std::fill(n.nodes[0]->pool.begin(), n.nodes[0]->pool.end(), std::byte{0});  // another request's
  n.advance(seconds(6));
  CHECK((n.nodes[1]->pool == before));
  CHECK(gathers == 0);
  n.network->lose_greetings("b", 0);
  expect_exact(n, 0, peer, 1, 2, 20);
}

TEST_CASE("C29 RESULT waits for all chunks, in whatever order they come", "[field][sim][C29]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimNodes n(2, {.seed = seed, .eager_bytes = seed % 2 == 0 ? 300u : 8000u});
    auto const peer = n.connect(0, 1);
    for (std::uint32_t chunk : {0u, 2u, 4u})
      n.network->add({.fault = MessageFault::reorder,
                      .kind = MessageKind::data,
                      .chunk = ChunkIndex{chunk},
                      .delay = milliseconds(5)});
    auto const g = n.grant(1, 1, 0, 40);
    auto const t = n.write(0, peer, 1, 1, 0, 40);
    n.advance(milliseconds(4));
    CHECK_FALSE(t.outcome());
    REQUIRE(ended(n, t));
    CHECK(t.outcome()->ok());
    CHECK(n.equal(0, 1, 0, 40));
  }
}

TEST_CASE("C41 a peer that never answers holds up nobody else, and its callers share one attempt",
          "[field][sim][C41]") {
  SimNodes n(3);
  auto const to_b = n.connect(0, 1);
  auto const to_c = n.connect(0, 2);
  auto const time_of_one = [&](std::uint64_t request) {
    auto const begin = n.network->now();
    expect_exact(n, 0, to_b, 1, request, 0);
    return (n.network->now() - begin).ns;
  };
  std::int64_t slowest = 0;
  for (std::uint64_t i = 1; i <= 20; ++i) slowest = std::max(slowest, time_of_one(i));
  n.network->cut("c");
  n.network->lose_greetings("c", 1000);
  n.advance(milliseconds(1));
  std::vector<Transfer> waiting;
  for (std::uint64_t i = 1; i <= 5; ++i)
    waiting.push_back(n.write(0, to_c, 2, i, 0, 4, milliseconds(500)));
  auto const begin = n.network->now();
  std::uint64_t request = 100;
  while (n.network->now() - begin < milliseconds(400))
    CHECK(time_of_one(++request) <= 2 * slowest + 2'000'000);  // and a turn of the test's clock
  for (auto const& t : waiting) CHECK_FALSE(t.outcome());
  for (auto const& t : waiting) {
    REQUIRE(ended(n, t));
    CHECK(t.outcome()->reason == Reason::deadline);
  }
  CHECK(n.nodes[0]->b10->metrics().links_refused.get() == 0);  // none had failed before
}

TEST_CASE("C50 C05 whatever comes twice counts once, at once and after the end",
          "[field][sim][C50]") {
  for (auto const kind : {MessageKind::control, MessageKind::ready, MessageKind::data,
                          MessageKind::result, MessageKind::descriptors})
    for (auto const delay : {microseconds(10), milliseconds(50)}) {
      INFO(static_cast<int>(kind));
      SimNodes n;
      auto const peer = n.connect(0, 1);
      n.network->add({.fault = MessageFault::duplicate, .kind = kind, .delay = delay});
      auto const g = n.grant(1, 1, 0, 10);
      auto const t = n.write(0, peer, 1, 1, 0, 10);
      REQUIRE(ended(n, t));
      CHECK(t.outcome()->ok());
      auto const o = g.next({});
      REQUIRE(o);
      CHECK(o->ok());
      CHECK(n.equal(0, 1, 0, 10));
      n.advance(milliseconds(100));
      CHECK_FALSE(g.next({}));
      auto const& mb = n.nodes[1]->b10->metrics();
      CHECK(mb.received.started.get() == 1);
      CHECK(mb.received.landed.get() == 1);
      auto const counted = mb.duplicates_ignored.get() + mb.stale_ignored.get() +
                           mb.unexpected_sunk.get() +
                           n.nodes[0]->b10->metrics().unexpected_sunk.get();
      CHECK(counted == (kind == MessageKind::descriptors ? 0 : 1));  // the list fits CONTROL
      expect_exact(n, 0, peer, 1, 2, 20);
    }
}

TEST_CASE("C74 clocks that are days apart, and one that jumps, change no deadline of another node",
          "[field][sim][C74]") {
  SimNodes n;
  n.network->jump_clock("b", seconds(3 * 86'400));
  auto const peer = n.connect(0, 1);
  expect_exact(n, 0, peer, 1, 1, 0);
  // The sender's clock leaps over its own deadline in the middle of a transfer; the receiver has
  // been told a duration and is not touched by it.
  n.network->add(
      {.fault = MessageFault::delay, .kind = MessageKind::data, .delay = milliseconds(5)});
  auto const g = n.nodes[1]->b10->grant(RequestId{2}, n.spans(1, 20, 10), seconds(100));
  auto const t = n.write(0, peer, 1, 2, 20, 10, seconds(100));
  n.advance(milliseconds(1));
  n.network->jump_clock("a", seconds(50));
  REQUIRE(ended(n, t));
  CHECK(t.outcome()->ok());
  CHECK(n.equal(0, 1, 20, 10));
}
