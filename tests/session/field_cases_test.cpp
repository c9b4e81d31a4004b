// Failure cases from the field, as far as they are the session layer's. Numbers are those of the
// collection.
#include <b10/session/session_node.hpp>

#include <memory>
#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

namespace {

/// Two prefill ranks of TP2 and one decode rank of TP1.
struct TwoToOne {
  std::shared_ptr<FakeAgent::World> world = std::make_shared<FakeAgent::World>();
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  Rank h0{world, hub, "h0", {small_group()}, {2, 0}}, h1{world, hub, "h1", {small_group()}, {2, 1}};
  Rank d{world, hub, "d", {small_group()}};
  std::vector<SlotId> pages = d.take(0, 4);

  TwoToOne() {
    d.node->register_peer("h0");
    d.node->register_peer("h1");
    settle();
  }
  void settle() {
    for (int i = 0; i < 8; ++i)
      for (auto* r : {&h0, &h1, &d}) r->node->progress();
  }
  std::shared_ptr<Rank::Node::Rx> receive(std::uint64_t request) {
    auto rx = d.node->rx({RequestId{request}, ReceiverSliceId{1}, 16, {"h0", "h1"}});
    BlockTable t({4}, 16);
    t.place(BlockOrdinal{0}, pages);
    rx->receive({{{GroupId{0}, t, {}}}, {}, {}});
    settle();
    return rx;
  }
  std::shared_ptr<Rank::Node::Tx> send(Rank& from, std::uint64_t request) {
    auto tx = from.node->tx({RequestId{request}, 16});
    Rank::Slice s;
    s.is_last = true;
    s.groups.push_back(
        {GroupId{0}, {BlockOrdinal{0}, BlockOrdinal{4}}, BlockOrdinal{0}, from.take(0, 4)});
    tx->send(s);
    return tx;
  }
};

}  // namespace

TEST_CASE("C03 of two writers one fails: one failure, and pages only when the other has stopped",
          "[session][C03]") {
  TwoToOne x;
  x.h0.agent.automatic = x.h1.agent.automatic = false;
  auto rx = x.receive(1);
  auto tx0 = x.send(x.h0, 1), tx1 = x.send(x.h1, 1);
  x.d.agent.copying(RequestId{1}, true);  // the sibling's copy runs
  x.h0.agent.fail(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  auto const why = rx->why();
  CHECK_FALSE(rx->take_pages({}));
  CHECK(tx1->status() == SessionStatus::cancelled);  // it was told to stop
  CHECK(x.h1.agent.cancelled(0));
  x.h1.agent.fail(0);  // the second failure adds nothing
  x.settle();
  CHECK(rx->why() == why);
  x.d.agent.copying(RequestId{1}, false);
  CHECK(rx->take_pages({}));
  CHECK(rx->close() == CloseAnswer::closed);

  auto rx2 = x.receive(2);
  auto ok0 = x.send(x.h0, 2), ok1 = x.send(x.h1, 2);
  x.h0.agent.land_all();
  x.h1.agent.land_all();
  x.settle();
  CHECK(rx2->status() == SessionStatus::fully_transferred);
  CHECK(ok0->status() == SessionStatus::fully_transferred);
  CHECK(ok1->status() == SessionStatus::fully_transferred);
}

TEST_CASE("C04 a chunk leaves after its compute event, in each chunk but the last too",
          "[session][C04]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 16);
  auto event = HostEvent::create();
  auto const middle = x.slice(0, 0, 2, false, event);
  tx->send(middle);
  x.p.agent.land_all();
  x.settle();
  CHECK(rx->status() == SessionStatus::ready);
  for (auto const s : {x.source[0], x.source[1]}) x.p.fill(s, 4711);  // what the pass computes
  event.fire();
  tx->send(x.slice(1, 2, 4, true));
  for (auto const s : {x.source[0], x.source[1]}) x.p.fill(s, 4711);
  x.p.agent.land_all();
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 4);
}

TEST_CASE("C09 one group of two fails: the request fails by its id, nothing is received",
          "[session][C09]") {
  TwoRanks x({small_group(), small_group(0, 10)});
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  BlockTable a({4}, 16), b({4}, 16);
  a.place(BlockOrdinal{0}, x.d.take(0, 4));
  b.place(BlockOrdinal{0}, x.d.take(1, 4));
  rx->receive({{{GroupId{0}, a, {}}, {GroupId{1}, b, {}}}, {}, {}});
  x.settle();
  tx->send(x.slice(0, 0, 4, true));  // nothing of group 1
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THAT(rx->why(), Contains("group 1") && Contains("had 0"));
  CHECK(rx->request() == RequestId{1});
}

TEST_CASE("C32 C33 a sender that gives up after some chunks: nothing counts as received",
          "[session][C32][C33]") {
  TwoRanks x;
  auto [tx, rx, slots] = x.open(1, 64);
  tx->send(x.slice(0, 0, 4, false));
  x.settle();
  CHECK(rx->status() == SessionStatus::transferring);
  (void)tx->cancel();
  x.settle();
  CHECK(rx->status() == SessionStatus::cancelled);  // all or nothing: no prefix is offered
  // A last slice that is never marked ends by the deadline.
  auto tx2 = x.tx(2, 16);
  auto rx2 = x.rx(2, 16);
  x.receive(*rx2, 16);
  tx2->send(x.slice(0, 0, 4, false));
  x.advance(seconds(60));
  CHECK(rx2->status() == SessionStatus::error);
  CHECK(rx2->reason() == Reason::deadline);
  CHECK(tx2->status() == SessionStatus::cancelled);
}

TEST_CASE("C38 C59 silent writers are known on both sides: each writer's bytes are its own",
          "[session][C38][C59]") {
  // One KV head on both ranks of TP2: rank 0 is elected, rank 1 never sends.
  auto g = small_group();
  g.heads_total = 1;
  auto world = std::make_shared<FakeAgent::World>();
  auto hub = std::make_shared<InProcess::Hub>();
  Rank w0(world, hub, "w0", {g}, {2, 0}), w1(world, hub, "w1", {g}, {2, 1}),
      d(world, hub, "d", {g});
  d.node->register_peer("w0");
  d.node->register_peer("w1");
  auto const settle = [&] {
    for (int i = 0; i < 8; ++i)
      for (auto* r : {&w0, &w1, &d}) r->node->progress();
  };
  settle();
  auto rx = d.node->rx({RequestId{1}, ReceiverSliceId{1}, 16, {"w0", "w1"}});
  BlockTable t({4}, 16);
  t.place(BlockOrdinal{0}, d.take(0, 4));
  rx->receive({{{GroupId{0}, t, {}}}, {}, {}});
  settle();
  CHECK(w1.node->gauges().early == 0);  // it was not even asked
  auto tx = w0.node->tx({RequestId{1}, 16});
  Rank::Slice s;
  s.is_last = true;
  s.groups.push_back(
      {GroupId{0}, {BlockOrdinal{0}, BlockOrdinal{4}}, BlockOrdinal{0}, w0.take(0, 4)});
  tx->send(s);
  settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
}

TEST_CASE("C50 results that come twice, or after the end, change nothing", "[session][C50]") {
  TwoRanks x;
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  auto const route = x.p.plane.open("d");
  auto const tell = [&](KvResult const& r) {
    // Prefill's own id is not known outside of it; a message of a stranger is ignored.
    REQUIRE(x.p.plane.send(route, encode(NodeId{5}, r)));
    x.settle();
  };
  tx->send(x.slice(0, 0, 4, true));
  x.settle();
  REQUIRE(rx->status() == SessionStatus::fully_transferred);
  tell({RequestId{1}, 0, {}, ReceiverSliceId{900}, true, ResultStatus::failed, 0, "late"});
  CHECK(rx->status() == SessionStatus::fully_transferred);
  REQUIRE(rx->take_pages({}));
  CHECK(rx->close() == CloseAnswer::closed);
  CHECK(rx->close() == CloseAnswer::closed);
  CHECK(tx->close() == CloseAnswer::closed);
  CHECK(tx->cancel() == CancelAnswer::drained);
  x.settle();
  tell({RequestId{1}, 0, {}, ReceiverSliceId{900}, true, ResultStatus::ok, 1024, ""});
  CHECK(x.d.node->gauges().rx == 0);
  // The same request twice is one session; after its end it is refused.
  CHECK_THROWS_AS(x.rx(1, 16), SessionRetired);
}

TEST_CASE("C57 C60 geometry that cannot be mapped is refused at registration, on both sides alike",
          "[session][C57][C60]") {
  auto world = std::make_shared<FakeAgent::World>();
  auto hub = std::make_shared<InProcess::Hub>();
  auto coarse = small_group();
  coarse.tokens_per_block = 8;
  Rank p(world, hub, "p", {coarse}), d(world, hub, "d", {small_group()});
  d.node->register_peer("p");
  for (int i = 0; i < 6; ++i) p.node->progress(), d.node->progress();
  CHECK_FALSE(d.node->knows("p"));
  CHECK_FALSE(p.node->knows("d"));
  CHECK_THAT(p.node->refusal(), Contains("tokens per block differs: 8 here, 4 at the peer"));
  CHECK_THAT(d.node->refusal(), Contains("tokens per block differs: 8 here, 4 at the peer"));
  CHECK_THROWS_WITH(d.node->rx({RequestId{1}, ReceiverSliceId{1}, 16, {"p"}}),
                    Contains("tokens per block"));
}

TEST_CASE("C63 absent blocks and state never become spans: groups have sizes of their own",
          "[session][C63]") {
  TwoRanks x({small_group(), state_group()});
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  BlockTable table({4}, 16);
  table.place(BlockOrdinal{2}, x.d.take(0, 2));  // [absent, absent, a, b]
  rx->receive({{{GroupId{0}, table, {}}}, {{GroupId{1}, absent}}, {}});
  x.settle();
  auto s = x.slice(0, 0, 4, true);
  s.state = {{GroupId{1}, x.p.take(1)}};
  tx->send(s);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  REQUIRE(x.p.agent.writes() == 1);
  CHECK(x.p.agent.sources(0).size() == 2);
  CHECK(x.p.agent.sources(0)[0].bytes == 256);
}

TEST_CASE("C87 an aborted slice ends both sides, and a thousand slices cost the same each",
          "[session][C87]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 64);
  for (std::uint32_t c = 0; c < 3; ++c) tx->send(x.slice(c, 2 * c, 2 * c + 2, false));
  x.p.agent.land(0);
  x.p.agent.land(1);
  x.p.agent.fail(2);
  x.settle();
  CHECK(tx->status() == SessionStatus::error);
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THROWS_AS(tx->send(x.slice(3, 6, 8, false)), Error);

  // 1,024 slices of one block: each is looked up once, whatever came before.
  std::size_t lookups = 0;
  PrefillSlicer slicer({.prompt_tokens = 4096, .groups = {{4}}});
  for (std::uint64_t i = 0; i < 1024; ++i) {
    auto const before = lookups;
    auto const chunk = slicer.chunk({TokenPos{4 * i}, TokenPos{4 * i + 4}});
    (void)cut(GroupId{0}, chunk.groups[0], [&](BlockOrdinal) {
      ++lookups;
      return SlotId{0};
    });
    REQUIRE(lookups - before == 1);
  }
}
