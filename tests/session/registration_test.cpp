// Peers meet: what is checked, what a mismatch says, what a restart does, and unequal ranks.
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

/// What a decode rank with another shape is told, and what it tells.
void refused(std::function<void(NodeOptions&)> const& change, std::string const& here,
             std::string const& there) {
  auto world = std::make_shared<FakeAgent::World>();
  auto hub = std::make_shared<InProcess::Hub>();
  Rank p(world, hub, "p", {small_group()});
  Rank d(world, hub, "d", {small_group()}, {}, change);
  d.node->register_peer("p");
  for (int i = 0; i < 4; ++i) p.node->progress(), d.node->progress();
  CHECK_FALSE(p.node->knows("d"));
  CHECK_FALSE(d.node->knows("p"));
  for (auto const& text : {p.node->refusal(), d.node->refusal()}) {
    CHECK_THAT(text, Contains(here));
    CHECK_THAT(text, Contains(there));
  }
  CHECK_THROWS_WITH(d.node->rx({RequestId{1}, {}, 16, {"p"}}),
                    Contains("not registered") && Contains(here));
}
GroupGeometry& group(NodeOptions& o) { return o.shape.groups[0].geometry; }

}  // namespace

TEST_CASE("R34 a mismatch is refused at registration, naming both values", "[session][R34]") {
  refused(
      [](auto& o) {
        o.shape.settings = {{"pipelined", "1"}};
      },
      "not set here", "\"1\" at the peer");
  refused([](auto& o) { o.shape.compat_key = "llama r2"; }, "\"\" here",
          "\"llama r2\" at the peer");
  refused([](auto& o) { o.shape.rank_order = "cp minor"; }, "rank order differs", "cp minor");
  refused([](auto& o) { o.shape.aux_bytes = 128; }, "64 here", "128 at the peer");
  refused([](auto& o) { group(o).tokens_per_block = 2; }, "tokens per block differs: 4 here",
          "2 at the peer");
  refused([](auto& o) { group(o).element_bytes = 1; }, "2 here", "1 at the peer");
  refused([](auto& o) { group(o).order = PageOrder::tokens_first; }, "heads first here",
          "tokens first at the peer");
  refused([](auto& o) { group(o).window = 64; }, "window differs: 0 here", "64 at the peer");
  refused(
      [](auto& o) {
        group(o).mla = true;
        group(o).heads_total = 1;
      },
      "K and V here", "MLA at the peer");
}

TEST_CASE("R34 requests carry no flags: a probe between registered peers is never rejected",
          "[session][R34]") {
  TwoRanks x({small_group()}, [](auto& o) { o.shape.settings = {{"pipelined", "1"}}; });
  auto tx = x.tx(1, 1);
  auto rx = x.rx(1, 1);
  x.receive(*rx, 1);
  tx->send(x.slice(0, 0, 1, true));
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
}

TEST_CASE("A peer's impossible pool, group or slot is refused, not followed",
          "[session][hostile]") {
  TwoRanks x;
  NodeShape bad = x.d.shape;
  CHECK(incompatibility(x.p.shape, bad).empty());
  bad.groups[0].pool.stride = 8;
  CHECK_THAT(incompatibility(x.p.shape, bad), Contains("stride of 8"));
  bad.groups[0].pool = {~0ull - 1000, 4096, 10};
  CHECK_THAT(incompatibility(x.p.shape, bad), Contains("wraps around"));
  bad = x.d.shape;
  bad.groups[0].geometry.layers.push_back(bad.groups[0].geometry.layers[0]);
  bad.groups[0].pool.stride *= 2;
  CHECK_THAT(incompatibility(x.p.shape, bad), Contains("comes twice"));
  bad = x.d.shape;
  bad.settings.resize(1'000'000);
  CHECK_THAT(incompatibility(x.p.shape, bad), Contains("1000000 settings"));
  bad = x.d.shape;
  bad.place.tp_size = 0;
  CHECK_THAT(incompatibility(x.p.shape, bad), Contains("TP 0 at the peer"));
  bad = x.d.shape;
  bad.place = {2, 7};
  CHECK_FALSE(incompatibility(x.p.shape, bad).empty());

  auto const peer = std::make_shared<PeerInfo>(
      PeerInfo{NodeId{9}, {}, x.d.shape, {}, link_groups(x.p.shape, x.d.shape)});
  auto tx = x.tx(1, 16);
  RequestData m{RequestId{1}, ReceiverSliceId{1}, 16, seconds(1), {}, {}, {}};
  auto const admit = [&](std::vector<WantedGroup> groups) {
    m.groups = std::move(groups);
    tx->admit(peer, m);
    return tx->status();
  };
  std::vector<SlotId> const four(4, SlotId{pool_slots});
  CHECK(admit({{GroupId{5}, {}, {}}}) == SessionStatus::init);
  CHECK(admit({{GroupId{0}, {}, four}}) == SessionStatus::init);
  CHECK(admit({{GroupId{0}, {}, {SlotId{1}}}}) == SessionStatus::init);
  m.aux = RemoteSpan{64, 1 << 20};
  CHECK(admit({}) == SessionStatus::init);
  CHECK(x.p.agent.writes() == 0);
}

TEST_CASE("Messages of strangers and damaged ones are ignored and counted", "[session][hostile]") {
  TwoRanks x;
  InProcess stranger({x.hub, "s"});
  auto const route = stranger.open("p");
  REQUIRE(stranger.send(route, encode(NodeId{77}, CancelSession{RequestId{1}, true})));
  std::vector<std::byte> const junk(40, std::byte{0x42});
  REQUIRE(stranger.send(route, junk));
  auto tx = x.tx(1, 16);
  x.settle();
  CHECK(tx->status() == SessionStatus::init);
  CHECK(x.p.node->gauges().ignored == 2);
}

TEST_CASE("A peer that restarts takes its name over: what was under way with it fails",
          "[session][C17]") {
  TwoRanks x;
  auto rx = x.rx(1, 16);
  x.receive(*rx, 16);
  x.settle();
  auto tx = x.tx(1, 16);
  CHECK(tx->status() == SessionStatus::ready);
  InProcess again({x.hub, "d2"});
  auto shape = x.d.shape;
  RegisterPeer const hello{false, "d2", {std::byte{1}}, shape};
  auto const route = again.open("p");
  REQUIRE(again.send(route, encode(NodeId{123456}, hello)));
  x.settle();
  CHECK(tx->status() == SessionStatus::error);
  CHECK_THAT(tx->why(), Contains("\"d\" restarted"));
  // What the earlier run still says is nobody's.
  auto const before = x.p.node->gauges().ignored;
  auto rx2 = x.rx(2, 16);
  x.receive(*rx2, 16);
  x.settle();
  CHECK(x.p.node->gauges().ignored > before);
}

TEST_CASE("C18 a peer that restarts leaves nothing behind: strangers hold no routes without end",
          "[session][C18]") {
  TwoRanks x;
  auto const routes = x.p.node->gauges().routes;
  CHECK(x.p.node->gauges().peers == 1);
  InProcess plane({x.hub, "s"});
  auto const route = plane.open("p");
  for (int life = 1; life <= 5; ++life) {
    auto const address = "d at " + std::to_string(life);
    RegisterPeer const hello{false, address, {std::byte{1}}, x.d.shape};
    REQUIRE(plane.send(route, encode(NodeId{static_cast<std::uint64_t>(life)}, hello)));
    x.settle();
    CHECK(x.p.node->gauges().peers == 1);
    CHECK(x.p.node->gauges().routes == routes);
  }
  auto other = x.d.shape;
  other.compat_key = "another model";
  for (int i = 0; i < 100; ++i) {
    RegisterPeer const hello{false, "x" + std::to_string(i), {}, other};
    REQUIRE(plane.send(route, encode(NodeId{900}, hello)));
  }
  x.settle();
  CHECK(x.p.node->gauges().peers == 1);
  CHECK(x.p.node->gauges().routes <= routes + 16);
}

TEST_CASE("A second registration of the same node changes nothing", "[session][plane]") {
  TwoRanks x;
  auto rx = x.rx(1, 16);
  auto const slots = x.receive(*rx, 16);
  x.p.node->register_peer("d");
  x.d.node->register_peer("p");
  x.settle();
  auto tx = x.tx(1, 16);
  tx->send(x.slice(0, 0, 4, true));
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(x.exact(slots) == 4);
}

TEST_CASE("R43 one prefill rank serves two decode ranks their heads, and two one",
          "[session][ranks][R43]") {
  auto world = std::make_shared<FakeAgent::World>();
  auto hub = std::make_shared<InProcess::Hub>();
  auto const g = small_group();
  Rank whole(world, hub, "w", {g}), h0(world, hub, "h0", {g}, {2, 0}),
      h1(world, hub, "h1", {g}, {2, 1});
  Rank again(world, hub, "a", {g});
  for (auto* half : {&h0, &h1}) {
    half->node->register_peer("w");
    half->node->register_peer("a");
  }
  auto const settle = [&] {
    for (int i = 0; i < 8; ++i)
      for (auto* r : {&whole, &h0, &h1, &again}) r->node->progress();
  };
  settle();
  auto const from = whole.take(0, 4);
  for (std::uint32_t i = 0; i < 4; ++i) whole.fill(from[i], 10 + i);
  auto const wanted = [](std::vector<SlotId> const& slots) {
    BlockTable t({4}, 16);
    t.place(BlockOrdinal{0}, slots);
    return RxSlice{{{GroupId{0}, t, {}}}, {}, {}};
  };
  auto const sent = [&](std::vector<SlotId> const& slots) {
    Rank::Slice s;
    s.is_last = true;
    s.groups.push_back({GroupId{0}, {BlockOrdinal{0}, BlockOrdinal{4}}, BlockOrdinal{0}, slots});
    return s;
  };
  auto const s0 = h0.take(0, 4), s1 = h1.take(0, 4), to = again.take(0, 4);
  auto r0 = h0.node->rx({RequestId{1}, ReceiverSliceId{1}, 16, {"w"}});
  auto r1 = h1.node->rx({RequestId{1}, ReceiverSliceId{2}, 16, {"w"}});
  r0->receive(wanted(s0));
  r1->receive(wanted(s1));
  auto tx = whole.node->tx({RequestId{1}, 16, 2});
  tx->send(sent(from));
  settle();
  REQUIRE(r0->status() == SessionStatus::fully_transferred);
  REQUIRE(r1->status() == SessionStatus::fully_transferred);
  CHECK(tx->status() == SessionStatus::fully_transferred);
  // Back again, from two writers into one rank: the bytes are those of the start.
  auto rx = again.node->rx({RequestId{2}, ReceiverSliceId{3}, 16, {"h0", "h1"}});
  rx->receive(wanted(to));
  h0.node->tx({RequestId{2}, 16})->send(sent(s0));
  settle();
  CHECK_FALSE(ended(rx->status()));  // one of two writers
  h1.node->tx({RequestId{2}, 16})->send(sent(s1));
  settle();
  REQUIRE(rx->status() == SessionStatus::fully_transferred);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::memcmp(whole.slot(from[i]).data(), again.slot(to[i]).data(), 256) == 0);
}
