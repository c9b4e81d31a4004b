// TxSession and RxSession over a recording agent: what is owned, told, refused and given back.
#include <b10/session/session_node.hpp>

#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

namespace {

std::vector<std::byte> payload(std::string const& text) {
  auto const view = as_byte_view(text);
  return {view.begin(), view.end()};
}

}  // namespace

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
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
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
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
  CHECK(tx->cancel() == CancelAnswer::drained);
  CHECK_THROWS_WITH(tx->send(x.slice(0, 0, 4, true, HostEvent::create())), Contains("cancelled"));
  CHECK(x.p.agent.writes() == 0);
}

TEST_CASE("R3 pages are owned from the first slice on", "[session][R3]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 64);
  auto rx = x.rx(1, 64);
  x.receive(*rx, 64);
  x.settle();
  CHECK(tx->activity() == Activity::idle);
  tx->send(x.slice(0, 0, 4, false));
  CHECK(tx->activity() == Activity::active);
  CHECK(tx->cancel() == CancelAnswer::in_flight);
}

TEST_CASE("R4 after a refused cancel the session stays until KV and AUX are drained",
          "[session][R4]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 16, true);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16, true);
  x.settle();
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

TEST_CASE("R7 R9 a failed chunk fails the receiver at once, by the receiver's slice id",
          "[session][R7][R9]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 64);
  auto rx = x.rx(1, 64);  // its slice id is 900
  x.receive(*rx, 64);
  x.settle();
  tx->send(x.slice(0, 0, 4, false));
  tx->send(x.slice(1, 4, 8, false));
  x.p.agent.land(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::transferring);
  x.p.agent.fail(1);
  x.settle();  // no later chunk, no time
  CHECK(tx->status() == SessionStatus::error);
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("cut"));
  CHECK(rx->take_pages({}));
}

TEST_CASE("R10 KvTransferred needs the last slice and all of them done", "[session][R10]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 32, true);
  auto rx = x.rx(1, 32);
  x.receive(*rx, 32, true);
  x.settle();
  tx->send(x.slice(0, 0, 4, false));
  x.p.agent.land(0);
  x.settle();
  CHECK(tx->status() == SessionStatus::ready);  // all are done, the last was not given
  tx->send(x.slice(1, 4, 8, true));
  CHECK(tx->status() == SessionStatus::transferring);
  x.p.agent.land(1);
  x.settle();
  CHECK(tx->status() == SessionStatus::kv_transferred);
  CHECK(derive({.task_failed = true, .last_given = true, .kv_done = true}) == SessionStatus::error);
  CHECK(derive({.cancelled = true, .task_failed = true}) == SessionStatus::cancelled);
}

TEST_CASE("Results are told in the order of the slices, whatever order they end in",
          "[session][tx]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 32);
  auto rx = x.rx(1, 32);
  auto const slots = x.receive(*rx, 32);
  x.settle();
  tx->send(x.slice(0, 0, 4, false));
  tx->send(x.slice(1, 4, 8, true));
  x.p.agent.land(1);
  x.settle();
  CHECK(rx->status() == SessionStatus::ready);
  x.p.agent.land(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 8);
}

TEST_CASE("A lost RESULT is decided by the receiver, who knows what has landed", "[session][C05]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  auto const slots = x.receive(*rx, 16);
  x.settle();
  tx->send(x.slice(0, 0, 4, true));
  x.p.agent.lose_result(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 4);
}

TEST_CASE("A receiver that holds a prefix is sent the rest; one that holds all nothing",
          "[session][R15]") {
  TwoRanks x;
  auto tx = x.tx(1, 32);
  auto rx = x.rx(1, 32);
  auto const slots = x.receive(*rx, 32, false, 3);
  tx->send(x.slice(0, 0, 8, true));
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(slots.size() == 5);
  CHECK(x.exact(slots, 3) == 5);
  auto tx2 = x.tx(2, 32);
  auto rx2 = x.rx(2, 32);
  x.receive(*rx2, 32, false, 8);
  auto const before = x.p.agent.writes();
  tx2->send(x.slice(0, 0, 8, true));
  x.settle();
  CHECK(rx2->status() == SessionStatus::fully_transferred);
  CHECK(x.p.agent.writes() == before);
  CHECK(rx2->close() == CloseAnswer::closed);
}

TEST_CASE("R16 an early failure of the prefix fails the request", "[session][R16]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 32);
  auto rx = x.rx(1, 32);
  x.receive(*rx, 32);
  x.settle();
  tx->send(x.slice(0, 0, 3, false));  // the reused prefix
  x.p.agent.fail(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THROWS_WITH(tx->send(x.slice(1, 3, 5, false)), Contains("has failed: cut"));
}

TEST_CASE("R18 a windowed group sends its live blocks, and never a block that is not computed",
          "[session][R18]") {
  TwoRanks x({small_group(), small_group(8, 10)});
  constexpr std::uint64_t prompt = 32;
  auto tx = x.tx(1, prompt);
  auto rx = x.rx(1, prompt);
  BlockTable full({4}, prompt), window({4, 8}, prompt);
  auto const a = x.d.take(0, 8), b = x.d.take(1, 2);
  full.place(BlockOrdinal{0}, a);
  window.place(BlockOrdinal{6}, b);
  rx->receive({{{GroupId{0}, full, {}}, {GroupId{1}, window, {}}}, {}, {}});
  PrefillSlicer slicer({.prompt_tokens = prompt, .groups = {{4}, {4, 8}}});
  std::vector<std::vector<SlotId>> blocks(2);
  std::uint64_t sentinel = 0;
  for (std::uint64_t at = 0; at < prompt; at += 8) {
    for (std::size_t g = 0; g < 2; ++g)
      while (blocks[g].size() * 4 < at + 8) {
        auto const s = x.p.take(g);
        x.p.fill(s, 100 * g + blocks[g].size(), g);
        blocks[g].push_back(s);
      }
    auto const chunk = slicer.chunk({TokenPos{at}, TokenPos{at + 8}});
    Rank::Slice s;
    s.id = chunk.id;
    s.is_last = chunk.is_last;
    for (std::uint16_t g = 0; g < 2; ++g)
      s.groups.push_back(cut(GroupId{g}, chunk.groups[g], [&](BlockOrdinal i) {
        sentinel += to_integer(i) >= blocks[g].size();
        return blocks[g].at(to_integer(i));
      }));
    tx->send(std::move(s));
  }
  x.settle();
  CHECK(sentinel == 0);
  CHECK(rx->status() == SessionStatus::fully_transferred);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::memcmp(x.p.slot(blocks[0][i]).data(), x.d.slot(a[i]).data(), 256) == 0);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(std::memcmp(x.p.slot(blocks[1][6 + i], 1).data(), x.d.slot(b[i], 1).data(), 256) == 0);
}

TEST_CASE("R21 a state slot moves exactly once, with the last slice", "[session][R21]") {
  TwoRanks x({small_group(), state_group()});
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  BlockTable table({4}, 16);
  auto const a = x.d.take(0, 4);
  table.place(BlockOrdinal{0}, a);
  auto const to = x.d.take(1), from = x.p.take(1);
  x.p.fill(from, 5, 1);
  rx->receive({{{GroupId{0}, table, {}}}, {{GroupId{1}, to}}, {}});
  x.settle();
  auto early = x.slice(0, 0, 2, false);
  early.state = {{GroupId{1}, from}};
  CHECK_THROWS_WITH(tx->send(early), Contains("has state and is not the last one"));
  tx->send(x.slice(0, 0, 2, false));
  auto last = x.slice(1, 2, 4, true);
  last.state = {{GroupId{1}, from}};
  tx->send(last);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(std::memcmp(x.p.slot(from, 1).data(), x.d.slot(to, 1).data(), 160) == 0);
}

TEST_CASE("A receiver never takes a hole for data: missing blocks fail the request",
          "[session][K1]") {
  TwoRanks x;
  auto tx = x.tx(1, 32);
  auto rx = x.rx(1, 32);
  x.receive(*rx, 32);
  x.settle();
  tx->send(x.slice(0, 0, 3, false));
  tx->send(x.slice(1, 5, 8, true));  // 3 and 4 are forgotten
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("wants 8 blocks") && Contains("had 6"));
}

TEST_CASE("Slices out of order or out of range are refused, and nothing is sent",
          "[session][R12]") {
  TwoRanks x;
  auto tx = x.tx(1, 32);
  CHECK_THROWS_WITH(tx->send(x.slice(1, 0, 2, false)), Contains("where slice 0 is due"));
  CHECK_THROWS_WITH(tx->send(x.slice(0, 6, 9, false)), Contains("[6, 9)") && Contains("[0, 8)"));
  tx->send(x.slice(0, 0, 4, false));
  CHECK_THROWS_WITH(tx->send(x.slice(1, 3, 5, false)), Contains("[4, 8) are still to be sent"));
  tx->send(x.slice(1, 4, 4, false));  // nothing of this group: no error
  CHECK_THROWS_WITH(tx->send(x.slice(0, 4, 6, false)), Contains("where slice 2 is due"));
}

TEST_CASE("R24 the last chunk once more is a no-op, a resend of another an error",
          "[session][R24]") {
  TwoRanks x;
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
  tx->send(x.slice(0, 0, 2, false));
  CHECK_THROWS_AS(tx->send(x.slice(0, 0, 4, true)), Error);  // no full resend while chunks are out
  tx->send(x.slice(1, 2, 4, true));
  x.settle();
  auto const writes = x.p.agent.writes();
  tx->send(x.slice(1, 2, 4, true));
  x.settle();
  CHECK(x.p.agent.writes() == writes);
  CHECK_THROWS_WITH(tx->send(x.slice(2, 2, 4, true)), Contains("after the last one"));
}

TEST_CASE("R26 one failed chunk stops prefill, drains its siblings, then frees", "[session][R26]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 64);
  auto rx = x.rx(1, 64);
  x.receive(*rx, 64);
  x.settle();
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
  // A late receiver is told so, with its own slice id, and does not wait out its deadline.
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("retired"));
  auto tx2 = x.tx(2, 16);
  CHECK(tx2->status() == SessionStatus::init);
  x.advance(seconds(119));
  CHECK_THROWS_AS(x.tx(1, 16), SessionRetired);
  x.advance(seconds(2));  // max(120 s, 2 x timeout)
  CHECK(x.tx(1, 16)->status() == SessionStatus::init);
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

TEST_CASE("A request that comes before its session is kept and served; so is a cancel",
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
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
  tx->send(x.slice(0, 0, 4, true));
  x.advance(seconds(9));
  CHECK_FALSE(ended(tx->status()));
  x.advance(seconds(2));
  CHECK(tx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("\"d\" was not reached within 10000 ms"));
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

TEST_CASE("R38 send and receive return nothing", "[session][R38]") {
  static_assert(
      std::is_void_v<decltype(std::declval<Rank::Node::Tx&>().send(std::declval<Rank::Slice>()))>);
  static_assert(std::is_void_v<decltype(std::declval<Rank::Node::Rx&>().receive({}))>);
  SUCCEED();
}

TEST_CASE("AUX is told by its identity, and too long a payload is refused", "[session][C20]") {
  TwoRanks x;
  auto tx = x.tx(1, 16, true);
  CHECK_THROWS_WITH(tx->send_aux(std::vector<std::byte>(41)), Contains("41 bytes"));
  auto const record = encode_aux(RequestId{1}, ReceiverSliceId{2}, payload("abc"), aux_bytes);
  CHECK(decode_aux(RequestId{1}, ReceiverSliceId{2}, record) == payload("abc"));
  CHECK_FALSE(decode_aux(RequestId{3}, ReceiverSliceId{2}, record));
  CHECK_FALSE(decode_aux(RequestId{1}, ReceiverSliceId{9}, record));
  CHECK_FALSE(decode_aux(RequestId{1}, ReceiverSliceId{2}, std::span(record).first(26)));
  CHECK_FALSE(decode_aux(RequestId{1}, ReceiverSliceId{2}, std::vector<std::byte>(aux_bytes)));
}

TEST_CASE("A missing first token fails its request only", "[session][aux]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto tx = x.tx(1, 16, true), tx2 = x.tx(2, 16, true);
  auto rx = x.rx(1, 16), rx2 = x.rx(2, 16);
  x.receive(*rx, 16, true);
  std::vector<std::byte> second(aux_bytes);
  BlockTable table({4}, 16);
  table.place(BlockOrdinal{0}, x.d.take(0, 4));
  rx2->receive({{{GroupId{0}, table, {}}}, {}, LocalSpan{second.data(), second.size()}});
  x.settle();
  for (auto& t : {tx, tx2}) {
    t->send(x.slice(0, 0, 4, true));
    t->send_aux(payload("t"));
  }
  x.p.agent.land(0);
  x.p.agent.fail(1);  // AUX of request 1
  x.p.agent.land(2);
  x.p.agent.land(3);
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK(rx2->status() == SessionStatus::fully_transferred);
  CHECK_FALSE(tx2->has_transferring_tasks());
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
