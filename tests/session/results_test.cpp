// What each side is told, and when: results, statuses, AUX records.
#include <b10/session/session_node.hpp>

#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

TEST_CASE("R7 R9 a failed chunk fails the receiver at once, by the receiver's slice id",
          "[session][R7][R9]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 64);  // its slice id is 900
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
  auto [tx, rx, slots] = x.open(1, 32, true);
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
  auto [tx, rx, slots] = x.open(1, 32);
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
  auto [tx, rx, slots] = x.open(1, 16);
  tx->send(x.slice(0, 0, 4, true));
  x.p.agent.lose_result(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 4);
}

TEST_CASE("A receiver never takes a hole for data: missing blocks fail the request",
          "[session][K1]") {
  TwoRanks x;
  auto [tx, rx, slots] = x.open(1, 32);
  tx->send(x.slice(0, 0, 3, false));
  tx->send(x.slice(1, 5, 8, true));  // 3 and 4 are forgotten
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("wants 8 blocks") && Contains("had 6"));
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
