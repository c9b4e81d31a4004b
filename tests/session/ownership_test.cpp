// Who owns pages: sessions over a recording agent, from the first slice to the proof.
#include <b10/session/session_node.hpp>

#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

TEST_CASE("A request moves in chunks, its AUX record last, and its pages come back as a proof",
          "[session][tx]") {
  TwoRanks x;
  auto tx = x.tx(17, 30, true);
  auto rx = x.rx(17, 30);
  CHECK(tx->status() == SessionStatus::init);
  auto const slots = x.receive(*rx, 30, true);
  x.settle();
  CHECK(tx->status() == SessionStatus::ready);
  tx->send(x.slice(0, 0, 3, false));
  tx->send(x.slice(1, 3, 8, true));
  x.settle();
  CHECK(tx->status() == SessionStatus::kv_transferred);
  CHECK(rx->status() == SessionStatus::kv_transferred);
  CHECK_FALSE(rx->take_pages({}));
  tx->send_aux(payload("first token"));
  x.settle();
  CHECK(tx->status() == SessionStatus::fully_transferred);
  CHECK(rx->wait({}) == SessionStatus::fully_transferred);
  CHECK(rx->aux() == payload("first token"));
  CHECK(x.exact(slots) == 8);
  CHECK(tx->activity() == Activity::idle);
  CHECK(rx->close() == CloseAnswer::refused);  // its pages are still granted
  auto const proof = rx->take_pages({});
  REQUIRE(proof);
  CHECK(proof->spans.size() == 9);
  CHECK_FALSE(rx->take_pages({}));
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(rx->close() == CloseAnswer::closed);
  CHECK(tx->close() == CloseAnswer::closed);
  x.settle();
  CHECK(x.p.node->gauges().tx + x.d.node->gauges().rx == 0);
}

TEST_CASE("R1 a task owns its pages before it waits for its event", "[session][R1]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 16);
  auto event = HostEvent::create();
  tx->send(x.slice(0, 0, 4, true, event));
  CHECK(tx->has_transferring_tasks());
  CHECK(tx->cancel() == CancelAnswer::in_flight);
  CHECK(tx->close() == CloseAnswer::refused);
  CHECK(tx->activity() == Activity::draining);
  x.p.agent.land_all();
  x.settle();
  CHECK(tx->has_transferring_tasks());  // the event has not fired
  event.fire();
  x.p.agent.land_all();
  x.settle();
  CHECK_FALSE(tx->has_transferring_tasks());
  CHECK(tx->activity() == Activity::idle);
  CHECK(tx->close() == CloseAnswer::closed);
}

TEST_CASE("R1 a task that was aborted first waits for nothing and writes nothing",
          "[session][R1]") {
  TwoRanks x;
  auto [tx, rx, slots] = x.open(1, 16);
  CHECK(tx->cancel() == CancelAnswer::drained);
  CHECK_THROWS_WITH(tx->send(x.slice(0, 0, 4, true, HostEvent::create())), Contains("cancelled"));
  CHECK(x.p.agent.writes() == 0);
}

TEST_CASE("R3 pages are owned from the first slice on", "[session][R3]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 64);
  CHECK(tx->activity() == Activity::idle);
  tx->send(x.slice(0, 0, 4, false));
  CHECK(tx->activity() == Activity::active);
  CHECK(tx->cancel() == CancelAnswer::in_flight);
}

TEST_CASE("R4 after a refused cancel the session stays until KV and AUX are drained",
          "[session][R4]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 16, true);
  tx->send(x.slice(0, 0, 4, true));
  tx->send_aux(payload("t"));
  REQUIRE(x.p.agent.writes() == 2);
  CHECK(tx->cancel() == CancelAnswer::in_flight);
  x.p.agent.land(0);
  x.settle();
  CHECK(tx->close() == CloseAnswer::refused);  // AUX
  x.p.agent.fail(1, false);
  x.settle();
  CHECK(tx->cancel() == CancelAnswer::in_flight);  // it has ended, but is still being read
  CHECK(x.p.node->gauges().tx == 1);
  x.p.agent.release(1);
  x.settle();
  CHECK(tx->cancel() == CancelAnswer::drained);
  CHECK(tx->close() == CloseAnswer::closed);
}

TEST_CASE("R5 pages may be freed if and only if nothing is under way", "[session][R5]") {
  for (auto const phase : {RequestPhase::prefilling, RequestPhase::done, RequestPhase::failed}) {
    CHECK(pages_may_be_freed(phase, Activity::idle));
    CHECK_FALSE(pages_may_be_freed(phase, Activity::active));
    CHECK_FALSE(pages_may_be_freed(phase, Activity::draining));
  }
}

TEST_CASE("R6 a cancel at each boundary of six chunks, from either side, ends both and frees all",
          "[session][R6]") {
  for (bool const by_receiver : {false, true})
    for (std::uint32_t boundary = 0; boundary <= 6; ++boundary) {
      TwoRanks x;
      auto tx = x.tx(1, 48);
      auto rx = x.rx(1, 48);
      auto const slots = x.receive(*rx, 48);
      x.settle();
      for (std::uint32_t c = 0; c < boundary; ++c) tx->send(x.slice(c, 2 * c, 2 * c + 2, c == 5));
      if (by_receiver)
        (void)rx->cancel(), (void)rx->cancel();
      else
        (void)tx->cancel(), (void)tx->cancel();
      x.settle();
      if (boundary == 6) {  // it had ended at the sender: the cancel came too late there
        CHECK(ended(tx->status()));
        CHECK(ended(rx->status()));
      } else {
        CHECK(tx->status() == SessionStatus::cancelled);
        CHECK(rx->status() == SessionStatus::cancelled);
      }
      CHECK(rx->take_pages({}));
      x.d.give(slots);
      x.forget_source();
      CHECK(x.d.free[0].size() == pool_slots);
      CHECK(x.p.free[0].size() == pool_slots);
      CHECK(tx->close() == CloseAnswer::closed);
      CHECK(rx->close() == CloseAnswer::closed);
      x.settle();
      CHECK(x.p.node->gauges().early + x.d.node->gauges().early == 0);  // one cancel, none echoed
      // The next request gets the same slots, and its own bytes.
      auto tx2 = x.tx(2, 48);
      auto rx2 = x.rx(2, 48);
      auto const again = x.receive(*rx2, 48);
      tx2->send(x.slice(0, 0, 12, true));
      x.settle();
      CHECK(rx2->status() == SessionStatus::fully_transferred);
      CHECK(x.exact(again) == 12);
    }
}

TEST_CASE("R26 one failed chunk stops prefill, drains its siblings, then frees", "[session][R26]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 64);
  for (std::uint32_t c = 0; c < 3; ++c) tx->send(x.slice(c, 2 * c, 2 * c + 2, false));
  x.p.agent.fail(1);
  x.settle();
  CHECK(tx->status() == SessionStatus::error);
  CHECK_THROWS_AS(tx->send(x.slice(3, 6, 8, false)), Error);
  CHECK(x.p.agent.writes() == 3);
  CHECK(x.p.agent.cancelled(0));
  CHECK(x.p.agent.cancelled(2));
  CHECK(tx->activity() == Activity::draining);
  CHECK(tx->close() == CloseAnswer::refused);
  x.p.agent.land_all();
  x.settle();
  CHECK(tx->activity() == Activity::idle);
  CHECK(tx->close() == CloseAnswer::closed);
}

TEST_CASE("R6 a cancel that the transport tells before the plane does is a cancel all the same",
          "[session][R6]") {
  TwoRanks x;
  auto tx = x.tx(1, 16), tx2 = x.tx(2, 16);
  auto rx = x.rx(1, 16), rx2 = x.rx(2, 16);
  auto const slots = x.receive(*rx, 16), more = x.receive(*rx2, 16);
  x.settle();
  x.d.agent.fail_receive(RequestId{1}, Reason::cancelled);
  x.d.agent.fail_receive(RequestId{2}, Reason::integrity);
  x.settle();
  CHECK(rx->status() == SessionStatus::cancelled);
  CHECK(rx->reason() == Reason::cancelled);
  CHECK(rx2->status() == SessionStatus::error);
  CHECK(rx2->reason() == Reason::integrity);
}

TEST_CASE("A cancelled receiver's pages come back only when no copy runs", "[session][C01]") {
  TwoRanks x;
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.d.agent.copying(RequestId{1}, true);
  CHECK(rx->cancel() == CancelAnswer::in_flight);
  CHECK_FALSE(rx->take_pages({}));
  CHECK(rx->close() == CloseAnswer::refused);
  x.d.agent.copying(RequestId{1}, false);
  CHECK(rx->cancel() == CancelAnswer::drained);
  auto const proof = rx->take_pages({});
  REQUIRE(proof);
  CHECK(proof->spans.size() == 4);
  CHECK(rx->close() == CloseAnswer::closed);
}

TEST_CASE("Ranks agree: completed by all, failed by any, retired when all are quiet",
          "[session][ranks]") {
  RequestId const a{1}, b{2}, c{3};
  std::vector<RankView> const views{{{a, b}, {c}, {a, b, c}}, {{a, b}, {b}, {a, b}}};
  auto const out = agree(views[0], [&](RankView const&) { return views; });
  CHECK(out.completed == std::set<RequestId>{a});
  CHECK(out.failed == std::set<RequestId>{b, c});
  CHECK(out.retired == std::set<RequestId>{a, b});  // c: a sibling is still at work
}
