// Rules that speak of several requests, of the end of prefill, and of what pipelining is worth.
#include <b10/session/session_node.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

TEST_CASE("R29 a request whose replay fails at the sender does not stop the others",
          "[session][R29]") {
  for (bool const as_error : {true, false}) {
    TwoRanks x;
    std::vector<std::shared_ptr<Rank::Node::Tx>> tx;
    std::vector<std::shared_ptr<Rank::Node::Rx>> rx;
    std::vector<std::vector<SlotId>> slots;
    for (std::uint64_t id = 1; id <= 3; ++id) {  // all are there before a receiver asks
      tx.push_back(x.tx(id, 16));
      tx.back()->send(x.slice(0, 0, 4, true));
    }
    int calls = 0;
    x.p.agent.before_submit = [&] {
      if (++calls != 2) return;
      if (as_error) throw Error(Reason::transport_failed, "no");
      throw std::out_of_range("no");
    };
    for (std::uint64_t id = 1; id <= 3; ++id) {
      rx.push_back(x.rx(id, 16));
      slots.push_back(x.receive(*rx.back(), 16));
    }
    x.settle();
    CHECK(rx[0]->status() == SessionStatus::fully_transferred);
    CHECK(rx[1]->status() == SessionStatus::error);
    CHECK(rx[1]->why() == "no");
    CHECK(rx[1]->reason() == (as_error ? Reason::transport_failed : Reason::invalid_request));
    CHECK_FALSE(tx[1]->has_transferring_tasks());
    CHECK(rx[2]->status() == SessionStatus::fully_transferred);
    CHECK(x.exact(slots[2]) == 4);
  }
}

TEST_CASE("R30 the last chunk alone finalises: before it nothing is final, after it nothing comes",
          "[session][R30]") {
  TwoRanks x({small_group(), state_group()});
  auto tx = x.tx(1, 16, true);
  auto rx = x.rx(1, 16);
  BlockTable table({4}, 16);
  table.place(BlockOrdinal{0}, x.d.take(0, 4));
  auto const to = x.d.take(1), from = x.p.take(1);
  x.p.fill(from, 5, 1);
  rx->receive(
      {{{GroupId{0}, table, {}}}, {{GroupId{1}, to}}, LocalSpan{x.d.aux.data(), x.d.aux.size()}});
  x.settle();
  tx->send(x.slice(0, 0, 2, false));
  tx->send_aux(payload("token"));  // early: it waits for the last chunk
  x.settle();
  CHECK(x.p.agent.writes() == 1);
  CHECK(rx->status() == SessionStatus::transferring);
  auto last = x.slice(1, 2, 4, true);
  last.id = SenderSliceId{7};
  CHECK_THROWS_AS(tx->send(last), Error);  // a final send that is refused finalises nothing
  CHECK_FALSE(ended(tx->status()));
  last.id = SenderSliceId{1};
  last.state = {{GroupId{1}, from}};
  tx->send(last);
  x.settle();
  REQUIRE(x.p.agent.writes() == 3);
  CHECK(x.p.agent.sources(1).size() == 3);  // two blocks, then the state
  CHECK(x.p.agent.sources(1).back().address == x.p.slot(from, 1).data());
  CHECK(x.p.agent.sources(2)[0].bytes == aux_bytes);  // and AUX behind them
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK_THROWS_WITH(tx->send(x.slice(2, 4, 4, true)), Contains("after the last one"));
  CHECK_THROWS_AS(tx->send_aux(payload("again")), Error);
}

namespace {

/// A wire that carries one write at a time, 40 ms for each block, once its pages are computed.
struct SlowWire {
  TwoRanks& x;
  std::size_t next = 0;  // write that is on it, or will be
  std::int64_t free_at = -1;

  void at(std::int64_t now_ms, std::vector<std::int64_t> const& computed_ms) {
    while (next < x.p.agent.writes() && computed_ms[next] <= now_ms) {
      if (free_at < 0)
        free_at = now_ms + 40 * static_cast<std::int64_t>(x.p.agent.sources(next).size());
      if (free_at > now_ms) return;
      x.p.agent.land(next++);
      free_at = -1;
    }
  }
};

/// Eight chunks of two blocks, 100 ms of compute each; when all have landed, in ms.
std::int64_t landed_after(bool pipelined) {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 64);
  SlowWire wire{x};
  std::vector<std::int64_t> computed;
  std::vector<HostEvent> events;
  for (std::int64_t now = 0; now <= 10'000; now += 10) {
    // A chunk is given when its compute is launched, with an event; serially all go at the end.
    auto const c = static_cast<std::uint32_t>(now / 100);
    if (pipelined && now % 100 == 0 && c < 8) {
      events.push_back(HostEvent::create());
      computed.push_back(now + 100);
      tx->send(x.slice(c, 2 * c, 2 * c + 2, c == 7, events.back()));
    }
    if (!pipelined && now == 700) {
      events.push_back(HostEvent::create());
      computed.push_back(800);
      tx->send(x.slice(0, 0, 16, true, events.back()));
    }
    for (std::size_t i = 0; i < events.size(); ++i)
      if (computed[i] <= now) events[i].fire();
    wire.at(now, computed);
    x.advance(milliseconds(10));
    if (rx->status() == SessionStatus::fully_transferred) return now;
  }
  return -1;
}

}  // namespace

TEST_CASE("R41 pipelining hides transfer: 8 x (100 ms compute, 80 ms transfer) end by 0.95 s",
          "[session][R41]") {
  CHECK(landed_after(false) == 1440);
  auto const pipelined = landed_after(true);
  CHECK(pipelined > 0);
  CHECK(pipelined <= 950);
}
