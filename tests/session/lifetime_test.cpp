// Early and late: sessions before their peer, after their end, and past their time.
#include <b10/session/session_node.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

TEST_CASE("R27 after close an id is retired: no chunk, no silent new session", "[session][R27]") {
  TwoRanks x;
  auto tx = x.tx(1, 16);
  tx->send(x.slice(0, 0, 2, false));
  CHECK(tx->close() == CloseAnswer::closed);
  CHECK_THROWS_AS(tx->send(x.slice(1, 2, 4, true)), SessionRetired);
  CHECK_THROWS_AS(x.tx(1, 16), SessionRetired);
  x.settle();
  CHECK_THROWS_AS(x.tx(1, 16), SessionRetired);
  CHECK(x.p.node->gauges().tx == 0);
  auto tx2 = x.tx(2, 16);
  CHECK(tx2->status() == SessionStatus::init);
  x.advance(seconds(119));
  CHECK_THROWS_AS(x.tx(1, 16), SessionRetired);
  x.advance(seconds(2));  // max(120 s, 2 x timeout)
  CHECK(x.tx(1, 16)->status() == SessionStatus::init);
}

TEST_CASE("R27 a receiver that comes too late is told how it ended, and does not wait",
          "[session][R27]") {
  for (bool const closed : {false, true}) {
    TwoRanks x;
    auto tx = x.tx(1, 16);
    (void)tx->cancel();
    if (closed) REQUIRE(tx->close() == CloseAnswer::closed);
    x.settle();
    auto rx = x.rx(1, 16);
    x.receive(*rx, 16);
    x.settle();
    CHECK(rx->status() == SessionStatus::cancelled);
    CHECK(rx->reason() == Reason::cancelled);

    auto tx2 = x.tx(2, 16);
    tx2->send(x.slice(0, 0, 4, true));
    x.advance(seconds(60));  // nobody has asked for it
    REQUIRE(tx2->status() == SessionStatus::error);
    CHECK(tx2->reason() == Reason::deadline);
    if (closed) REQUIRE(tx2->close() == CloseAnswer::closed);
    x.settle();
    auto rx2 = x.rx(2, 16);
    x.receive(*rx2, 16);
    x.settle();
    CHECK(rx2->status() == SessionStatus::error);
    CHECK(rx2->reason() == Reason::refused);
    CHECK_THAT(rx2->why(), Contains(closed ? "retired" : "ms after the last chunk"));
  }
}

TEST_CASE("R28 a late receiver is replayed all chunks and the AUX record in order",
          "[session][R28]") {
  TwoRanks x;
  auto tx = x.tx(1, 32, true);
  for (std::uint32_t c = 0; c < 4; ++c) tx->send(x.slice(c, 2 * c, 2 * c + 2, c == 3));
  tx->send_aux(payload("late"));
  CHECK(x.p.agent.writes() == 0);
  CHECK(tx->activity() == Activity::active);  // its pages will be read
  auto rx = x.rx(1, 32);
  auto const slots = x.receive(*rx, 32, true);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(rx->aux() == payload("late"));
  CHECK(x.exact(slots) == 8);
  for (std::uint32_t c = 0; c < 4; ++c)
    CHECK(x.p.agent.sources(c)[0].address == x.p.slot(x.source[2 * c]).data());
}

TEST_CASE("A request that comes before its session is kept and served: so is a cancel",
          "[session][early]") {
  TwoRanks x;
  auto rx = x.rx(1, 16);
  auto const slots = x.receive(*rx, 16);
  x.settle();
  CHECK(x.p.node->gauges().early == 1);
  auto tx = x.tx(1, 16);
  CHECK(tx->status() == SessionStatus::ready);
  tx->send(x.slice(0, 0, 4, true));
  x.settle();
  CHECK(x.exact(slots) == 4);
  CHECK(x.p.node->gauges().early == 0);

  auto rx2 = x.rx(2, 16);
  x.receive(*rx2, 16);
  (void)rx2->cancel();
  x.settle();
  auto tx2 = x.tx(2, 16);
  CHECK(tx2->status() == SessionStatus::cancelled);
  CHECK_THROWS_AS(tx2->send(x.slice(0, 0, 4, true)), Error);
  // What nobody comes for is forgotten.
  auto rx3 = x.rx(3, 16);
  x.receive(*rx3, 16);
  x.settle();
  x.advance(seconds(61));  // the receiver gives up: its cancel is the last that came early
  x.advance(seconds(61));
  CHECK(x.p.node->gauges().early == 0);
}

TEST_CASE("R29 a receiver that cannot be served does not stop the others", "[session][R29]") {
  TwoRanks x;
  Rank other(x.world, x.hub, "e", {small_group()});
  other.node->register_peer("p");
  x.settle();
  other.node->progress();
  auto bad = other.node->rx({RequestId{1}, ReceiverSliceId{5}, 20, {"p"}});  // another prompt
  BlockTable table({4}, 20);
  auto const five = other.take(0, 5);
  table.place(BlockOrdinal{0}, five);
  bad->receive({{{GroupId{0}, table, {}}}, {}, {}});
  auto rx = x.rx(1, 32);
  auto const slots = x.receive(*rx, 32);
  x.settle();
  auto tx = x.tx(1, 32);
  tx->send(x.slice(0, 0, 8, true));
  x.settle();
  other.node->progress();
  CHECK(bad->status() == SessionStatus::error);
  CHECK_THAT(bad->why(), Contains("32 tokens here and 20 at the receiver"));
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 8);
}

TEST_CASE("R32 the session's time runs from the last chunk, the receiver's from receive",
          "[session][R32][C75]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 16);
  tx->send(x.slice(0, 0, 2, false));
  x.advance(seconds(600));
  CHECK(tx->status() == SessionStatus::init);
  tx->send(x.slice(1, 2, 4, true));
  x.advance(seconds(59));
  CHECK_FALSE(ended(tx->status()));
  CHECK_FALSE(tx->wait({}));
  x.advance(seconds(1));
  CHECK(tx->status() == SessionStatus::error);
  CHECK_THAT(tx->why(), Contains("60000 ms after the last chunk (SessionTimes::session)"));
  auto rx = x.rx(2, 16);
  x.receive(*rx, 16);
  x.advance(seconds(60));
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("60000 ms after receive()"));
}

TEST_CASE("What has arrived counts before the deadline", "[session][C39]") {
  TwoRanks x;
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.p.node->progress();
  tx->send(x.slice(0, 0, 4, true));
  x.p.node->progress();
  x.advance(seconds(61));  // the receiver looks only now
  CHECK(rx->status() == SessionStatus::fully_transferred);
}

TEST_CASE("A remote that cannot be reached fails the request by the operation's limit",
          "[session][tx]") {
  TwoRanks x;
  x.p.agent.unreachable = true;
  auto [tx, rx, slots] = x.open(1, 16);
  tx->send(x.slice(0, 0, 4, true));
  x.advance(seconds(9));
  CHECK_FALSE(ended(tx->status()));
  x.advance(seconds(2));
  CHECK(tx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("\"d\" was not reached within 10000 ms"));
}

namespace {

struct CountedPlane : InProcess {
  using InProcess::InProcess;
  void wake() noexcept {
    ++wakes;
    InProcess::wake();
  }
  std::atomic<int> wakes{0};
};

}  // namespace

TEST_CASE("A transfer that ends after its node has gone rings nobody's bell", "[session][C77]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  CountedPlane plane({x.hub, "p2"});
  auto shape = x.p.shape;
  shape.name = "p2";
  FakeAgent agent(x.world, "p2");
  agent.automatic = false;
  using Node = SessionNode<FakeAgent, CountedPlane>;
  auto node = std::make_unique<Node>(agent, plane, NodeOptions{.shape = shape});
  node->register_peer("d");
  auto const settle = [&] {
    for (int i = 0; i < 6; ++i) {
      if (node) node->progress();
      x.d.node->progress();
    }
  };
  settle();
  auto rx = x.d.node->rx({RequestId{1}, ReceiverSliceId{1}, 16, {"p2"}});
  x.receive(*rx, 16);
  settle();
  node->tx({RequestId{1}, 16})->send(x.slice(0, 0, 4, true));
  REQUIRE(agent.writes() == 1);
  auto const before = plane.wakes.load();
  node.reset();
  agent.land_all();
  CHECK(plane.wakes == before);
}

TEST_CASE("R40 progress with a limit sleeps until a message comes or a transfer ends",
          "[session][R40]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  CHECK(x.p.node->progress(seconds(1000)) == 1);  // REQUEST_DATA was there
  auto tx = x.tx(1, 16);
  tx->send(x.slice(0, 0, 4, true));
  x.p.agent.land_all();
  CHECK(x.p.node->progress(seconds(1000)) == 0);  // woken: the transfer has ended
  CHECK(tx->status() == SessionStatus::fully_transferred);
  CHECK(x.p.node->progress(milliseconds(1)) == 0);
}
