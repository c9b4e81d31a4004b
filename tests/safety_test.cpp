// S1-S12 of the protocol, each on a toy transfer over Loopback with a clock and copies that the
// test moves.
#include "support/two_nodes.hpp"

#include <map>
#include <set>

#include "support/catch.hpp"
#include "support/counted_host.hpp"

using namespace b10;
using namespace support;

namespace {

constexpr Duration almost = milliseconds(999);
constexpr Duration rest = milliseconds(2);

/// Lets only messages pass for which `hit` is false; the others meet `fate`.
template <class Nodes, class Hit>
void on(Nodes& n, Fate fate, Hit hit) {
  n.network->set_filter([=](Passing const& p) { return hit(p) ? fate : Fate::deliver; });
}
template <class Nodes>
void on(Nodes& n, Fate fate, MessageKind kind) {
  on(n, fate, [=](Passing const& p) { return kind_of(p) == kind; });
}

}  // namespace

TEST_CASE("S1 a transceiver offers WRITE and nothing that reads a peer", "[S1]") {
  auto const reads = [](auto& node) {
    return requires { node.read(PeerId{}, typename Node<>::Write{}); };
  };
  TwoNodes n;
  CHECK_FALSE(reads(*n.a));
  // A frame of any other kind moves nothing.
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 1);
  auto t = n.write(peer, 1, 0, 1);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 1));
}

TEST_CASE("S2 RESULT does not leave before every destination copy event", "[S2]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  n.advance(milliseconds(500));
  REQUIRE(n.held_b->started(CopyKind::scatter) == 2);  // the window
  CHECK_FALSE(t.outcome());
  n.held_b->release(0);
  n.held_b->release(1);
  n.settle();
  REQUIRE(n.held_b->started(CopyKind::scatter) == 3);
  CHECK_FALSE(t.outcome());
  CHECK_FALSE(g.next({}));
  n.held_b->release(2);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(t.outcome()->bytes == 10 * span_bytes);
  CHECK(n.exactly(0, 10));
}

TEST_CASE("S3 after a timeout views, tags, id and generation sit out 120 s, then the pool is whole",
          "[S3]") {
  std::set<std::uint32_t> generations;
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  n.network->set_filter([&](Passing const& p) {
    if (auto h = wire::decode_header(p.bytes)) generations.insert(to_integer(h->generation));
    return kind_of(p) == MessageKind::data ? Fate::drop : Fate::deliver;
  });
  auto const& ma = n.a->metrics();
  auto const& mb = n.b->metrics();
  auto const whole = mb.staging_total.get();
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::deadline);
  CHECK(mb.staging_quarantined.get() == 2 * slice_bytes);  // one view per posted receive
  CHECK(mb.tags_quarantined.get() == 3 + 2);
  CHECK(ma.tags_quarantined.get() == 3 + 2);
  CHECK(mb.generations_penned.get() == 1);
  CHECK(generations.size() == 1);

  n.advance(milliseconds(119'900));  // after the failure
  CHECK(mb.staging_quarantined.get() == 2 * slice_bytes);
  CHECK(mb.tags_quarantined.get() == 5);
  n.advance(milliseconds(200));  // 120.1 s
  CHECK(mb.staging_quarantined.get() == 0);
  CHECK(mb.tags_quarantined.get() == 0);
  CHECK(ma.tags_quarantined.get() == 0);
  CHECK(mb.generations_penned.get() == 0);
  n.advance(milliseconds(20));
  CHECK(mb.staging_total.get() == whole);
  CHECK(mb.staging_free.get() == whole);

  n.network->set_filter({});
  auto g2 = n.grant(2, 10, 4);
  auto again = n.write(peer, 2, 10, 4);
  n.settle();
  REQUIRE(again.outcome());
  CHECK(again.outcome()->ok());
}

TEST_CASE("S4 expired quarantine is dropped, never recycled", "[S4]") {
  using Counted = CountedHost<slicing::Pipelined<slice_bytes, 2>, copy::Held>;
  using Node = Transceiver<Counted, tag::Hashed, completion::CopyEvent, quarantine::Ttl<120>,
                           transport::Loopback>;
  auto const counts = std::make_shared<Counted::Counts>();
  TwoNodes<Node> n(4, 4, [&](auto& c) {
    if (c.name == "b") c.staging.counts = counts;
  });
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 8);
  on(n, Fate::drop, MessageKind::data);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK(n.b->metrics().staging_quarantined.get() == 2 * slice_bytes);
  n.advance(milliseconds(119'900));
  CHECK(counts->dropped == 0);
  n.advance(milliseconds(200));
  CHECK(counts->dropped == 2);
  CHECK(counts->recycled == 0);
  n.advance(milliseconds(100));
  CHECK(n.b->metrics().staging_free.get() == 4 * slice_bytes);  // by fresh memory
}

TEST_CASE("S5 a late write lands only in quarantined staging", "[S5]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  on(n, Fate::stall, MessageKind::data);
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  n.network->set_filter({});
  // Another request takes the same blocks, then the old bytes arrive.
  auto q = g.revoke({});
  REQUIRE(q);
  auto g2 = n.grant(2, 0, 10);
  auto t2 = n.write(peer, 2, 0, 10);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
  for (auto& x : n.source) x = std::byte{0};  // whatever arrives now is not the new content
  auto const before = n.pool;
  CHECK(n.network->release() == 2);  // both had a posted buffer to land in
  n.settle();
  CHECK(n.pool == before);
  CHECK(n.b->metrics().staging_quarantined.get() == 2 * slice_bytes);
}

namespace {
/// A tag space of a few bits, to make collisions common.
template <unsigned Bits>
struct CutTags {
  static constexpr std::string_view name = "tag::Cut";
  static constexpr bool identities_recur = true;
  [[nodiscard]] Tag tag(MessageIdentity m) const noexcept {
    auto const t = to_integer(tag::Hashed{}.tag(m)) & ((1u << Bits) - 1);
    return Tag{t == 0 ? 1 : t};
  }
};

template <unsigned Bits>
void collide() {
  TwoNodes<Node<CutTags<Bits>>> n(64, 64);
  auto const peer = n.connect();
  n.held_b->hold(CopyKind::scatter);
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < 40; ++i) {
    grants.push_back(n.grant(i + 1, 10 * i, 6));
    transfers.push_back(n.write(peer, i + 1, 10 * i, 6, seconds(10)));
    n.settle();
  }
  for (int round = 0; round < 8; ++round) {
    n.held_b->release_all();
    n.settle();
  }
  std::size_t landed = 0, collided = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    REQUIRE(transfers[i].outcome());
    auto const o = *transfers[i].outcome();
    bool const exact = std::equal(n.pool.begin() + static_cast<long>(10 * i * span_bytes),
                                  n.pool.begin() + static_cast<long>((10 * i + 6) * span_bytes),
                                  n.source.begin() + static_cast<long>(10 * i * span_bytes));
    if (o.ok()) {
      CHECK(exact);
      ++landed;
    } else {
      CHECK(o.reason == Reason::tag_collision);
      // Hard failure of the newcomer before anything was posted: its blocks hold the canary.
      CHECK(std::all_of(n.pool.begin() + static_cast<long>(10 * i * span_bytes),
                        n.pool.begin() + static_cast<long>((10 * i + 6) * span_bytes),
                        [](std::byte x) { return x == canary; }));
      ++collided;
    }
  }
  CHECK(collided > 0);
  CHECK(landed > 0);
  CHECK(n.a->metrics().sweeps.get() == 0);  // nothing was uncertain
}
}  // namespace

TEST_CASE("S6 a tag collision is a hard failure of the newcomer before DATA", "[S6]") {
  SECTION("8 bits") { collide<8>(); }
  SECTION("4 bits") { collide<4>(); }
}

TEST_CASE("S7 generations are never reused, also after the peer is rebuilt", "[S7]") {
  std::vector<std::uint32_t> seen;
  std::set<std::uint64_t> tags;
  bool tag_repeated = false;
  TwoNodes n;
  auto peer = n.connect();
  n.network->set_filter([&](Passing const& p) {
    auto const h = wire::decode_header(p.bytes);
    if (h && h->kind == MessageKind::control) seen.push_back(to_integer(h->generation));
    if (!p.control) tag_repeated |= !tags.insert(to_integer(p.tag)).second;
    return Fate::deliver;
  });
  for (std::uint64_t i = 1; i <= 6; ++i) {
    auto g = n.grant(i, 0, 4);
    auto t = n.write(peer, i, 0, 4);
    n.settle();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->ok());
    n.network->cut("b");
    n.settle();
  }
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  CHECK(seen.size() == 6);

  // A rebuilt peer is another incarnation: another pair domain, so other tags though generations
  // start again.
  n.b.reset();
  n.settle();
  copy::Held copies;
  copies.control()->run_freely(CopyKind::scatter);
  n.b = std::make_unique<Node<>>(n.config("b", 16, copies));
  n.b->register_memory({n.pool.data(), n.pool.size()});
  peer = n.connect();
  auto g = n.b->grant(RequestId{99}, n.blocks(0, 4), seconds(100));
  auto t = n.write(peer, 99, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK_FALSE(tag_repeated);
}

TEST_CASE("S8 with every notification dropped the receiver still completes", "[S8]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  on(n, Fate::drop, MessageKind::result);
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  auto const landed = g.next({});
  REQUIRE(landed);
  CHECK(landed->ok());
  CHECK(n.exactly(0, 10));
  CHECK_FALSE(t.outcome());
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::unconfirmed);
  CHECK_FALSE(g.next({}));  // one outcome, and it stays
}

TEST_CASE("S9 each wait that stalls fails at its deadline and names itself", "[S9]") {
  struct Case {
    char const* wait;
    std::function<void(TwoNodes<>&)> stall;
    Status status = Status::failed;
  };
  auto const lose = [](MessageKind kind) {
    return [kind](TwoNodes<>& n) { on(n, Fate::drop, kind); };
  };
  auto const cases = std::vector<Case>{
      {"READY", lose(MessageKind::control)},
      {"READY", lose(MessageKind::ready)},
      {"RESULT", lose(MessageKind::data), Status::unconfirmed},
      {"RESULT", lose(MessageKind::result), Status::unconfirmed},
      {"gathers", [](TwoNodes<>& n) { n.held_a->hold(CopyKind::gather); }},
      {"RESULT", [](TwoNodes<>& n) { n.held_b->hold(CopyKind::scatter); }, Status::unconfirmed},
  };
  for (auto const& c : cases) {
    INFO(c.wait);
    TwoNodes n;
    auto const peer = n.connect();
    auto g = n.grant(1, 0, 4);
    c.stall(n);
    auto t = n.write(peer, 1, 0, 4);
    n.settle();
    n.advance(almost);
    CHECK_FALSE(t.outcome());
    n.advance(rest);
    REQUIRE(t.outcome());
    CHECK(t.outcome()->reason == Reason::deadline);
    CHECK(t.outcome()->status == c.status);
    CHECK(t.outcome()->why.find(c.wait) != std::string::npos);
    CHECK(n.b->metrics().transfers_running.get() == 0);  // the receiver has ended as well
    CHECK(adds_up(n.a->metrics()));
    CHECK(adds_up(n.b->metrics()));
    n.held_a->release_all();
    n.held_b->release_all();
  }
}

TEST_CASE("S9 a receiver whose DATA or scatter stalls fails at the deadline by itself", "[S9]") {
  for (bool const scatter : {false, true}) {
    TwoNodes n(16, 16, [](auto& c) { c.receive_limit = seconds(1); });
    auto const peer = n.connect();
    auto g = n.grant(1, 0, 4);
    // The sender's word is lost too, so the receiver has only its own clock.
    n.network->set_filter([=](Passing const& p) {
      auto const k = kind_of(p);
      return (k == MessageKind::data && !scatter) || k == MessageKind::abort ||
                     k == MessageKind::result
                 ? Fate::drop
                 : Fate::deliver;
    });
    if (scatter) n.held_b->hold(CopyKind::scatter);
    (void)n.write(peer, 1, 0, 4, seconds(50));
    n.settle();
    n.advance(almost);
    CHECK_FALSE(g.next({}));
    n.advance(rest);
    auto const o = g.next({});
    REQUIRE(o);
    CHECK(o->reason == Reason::deadline);
    CHECK(o->destinations_quiescent == !scatter);
    CHECK(o->why.find(scatter ? "scatters" : "DATA") != std::string::npos);
    n.held_b->release_all();
  }
}

TEST_CASE("S9 waiting for admission has its own bound and posts nothing", "[S9]") {
  TwoNodes n(16, 16, [](auto& c) { c.admission_bytes = 1024, c.small_bytes = 0; });
  auto const peer = n.connect();
  auto g1 = n.grant(1, 0, 4);
  auto g2 = n.grant(2, 8, 4);
  n.held_b->hold(CopyKind::scatter);
  auto first = n.write(peer, 1, 0, 4, seconds(5));
  auto const from = n.sources(8, 4);
  auto const to = n.remote(n.blocks(8, 4));
  auto second = n.a->write(peer, {.request = RequestId{2},
                                  .sources = from,
                                  .destinations = to,
                                  .deadline = seconds(5),
                                  .queue_limit = seconds(1)});
  n.settle();
  n.advance(almost);
  CHECK_FALSE(second.outcome());
  n.advance(rest);
  REQUIRE(second.outcome());
  CHECK(second.outcome()->reason == Reason::queue_limit);
  CHECK(n.a->metrics().sweeps.get() == 0);
  CHECK(n.a->metrics().staging_quarantined.get() == 0);
  n.held_b->release_all();
  n.settle();
  REQUIRE(first.outcome());
  CHECK(first.outcome()->ok());
}

TEST_CASE("S9 waiting for staging of the receiver ends at the deadline", "[S9]") {
  TwoNodes n(16, 2);
  auto const peer = n.connect();
  auto g1 = n.grant(1, 0, 4);
  auto g2 = n.grant(2, 8, 4);
  n.held_b->hold(CopyKind::scatter);
  auto first = n.write(peer, 1, 0, 4, seconds(5));
  n.settle();
  auto second = n.write(peer, 2, 8, 4);
  n.settle();
  n.advance(almost);
  CHECK_FALSE(second.outcome());
  n.advance(rest);
  REQUIRE(second.outcome());
  CHECK(second.outcome()->reason == Reason::deadline);
  n.held_b->release_all();
  n.settle();
  REQUIRE(first.outcome());
  CHECK(first.outcome()->ok());
}

TEST_CASE("S9 waiting for a connection ends at the deadline", "[S9]") {
  TwoNodes n;
  auto const peer = n.connect();
  n.network->cut("b");
  n.settle();
  // The other side does not turn, so nobody answers.
  auto const from = n.sources(0, 4);
  auto const to = n.remote(n.blocks(0, 4));
  auto t = n.a->write(
      peer, {.request = RequestId{1}, .sources = from, .destinations = to, .deadline = seconds(1)});
  for (int i = 0; i < 10; ++i) n.a->progress();
  n.network->advance(almost);
  for (int i = 0; i < 10; ++i) n.a->progress();
  CHECK_FALSE(t.outcome());
  n.network->advance(rest);
  for (int i = 0; i < 10; ++i) n.a->progress();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::deadline);
  CHECK(t.outcome()->why.find("connection") != std::string::npos);
}

TEST_CASE("S9 waiting for the source-ready event ends at the deadline", "[S9]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto event = HostEvent::create();
  auto t = n.write(peer, 1, 0, 4, seconds(1), event);
  n.settle();
  n.advance(almost);
  CHECK_FALSE(t.outcome());
  CHECK(n.held_a->started(CopyKind::gather) == 0);
  n.advance(rest);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::deadline);
  CHECK(t.outcome()->sources_quiescent);
  CHECK(n.untouched());
}

TEST_CASE("S10 a failure runs exactly one sweep on each side", "[S10]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  on(n, Fate::drop, MessageKind::data);
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  n.advance(seconds(1));
  n.network->cut("b");  // further bad news about the same transfer
  n.settle();
  t.cancel();
  n.settle();
  CHECK(n.a->metrics().sweeps.get() == 1);
  CHECK(n.b->metrics().sweeps.get() == 1);
  CHECK(n.a->metrics().sent.failed() == 1);
  CHECK(n.b->metrics().received.failed() == 1);
  REQUIRE(g.next({}));
  CHECK_FALSE(g.next({}));
}

TEST_CASE("S11 one of a hundred concurrent transfers fails and 99 land", "[S11]") {
  std::optional<TransferId> victim;
  TwoNodes n(400, 400);
  auto const peer = n.connect();
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  n.network->set_filter([&](Passing const& p) {
    auto const h = wire::decode_data_header(p.bytes);
    if (!h) return Fate::deliver;
    if (!victim) victim = h->transfer;
    return h->transfer == *victim && to_integer(h->chunk) == 1 ? Fate::drop : Fate::deliver;
  });
  n.held_b->hold(CopyKind::scatter);
  for (std::size_t i = 0; i < 100; ++i) {
    grants.push_back(n.grant(i + 1, 10 * i, 6));
    transfers.push_back(n.write(peer, i + 1, 10 * i, 6, i == 0 ? seconds(1) : seconds(50)));
    n.settle();
  }
  n.advance(milliseconds(1001));
  for (int i = 0; i < 4; ++i) {
    n.held_b->release_all();
    n.settle();
  }
  std::size_t landed = 0;
  for (auto const& t : transfers) {
    REQUIRE(t.outcome());
    landed += t.outcome()->ok();
  }
  CHECK(landed == 99);
  CHECK_FALSE(transfers[0].outcome()->ok());
  CHECK(adds_up(n.b->metrics()));
}

TEST_CASE("S12 chunks fit the slice, at most max are in flight, gather i overlaps the wire of i-1",
          "[S12]") {
  using Big = Node<tag::Hashed, slicing::Pipelined<16 * 1024, 3>>;  // large enough for rendezvous
  std::uint64_t largest = 0;
  TwoNodes<Big> n(16, 16);
  auto const peer = n.connect();
  n.network->set_filter([&](Passing const& p) {
    if (auto h = wire::decode_data_header(p.bytes)) largest = std::max(largest, h->bytes);
    return Fate::deliver;
  });
  auto g = n.grant(1, 0, 1000);
  auto t = n.write(peer, 1, 0, 1000);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 1000));
  CHECK(largest <= 16 * 1024);
  std::map<std::uint32_t, std::size_t> gather_started, sent;
  std::size_t in_flight = 0, most = 0, i = 0;
  for (auto const& e : n.a->flight_events()) {
    ++i;
    auto const chunk = to_integer(e.chunk);
    if (e.stage == core::Stage::gather_started)
      gather_started[chunk] = i, most = std::max(most, ++in_flight);
    if (e.stage == core::Stage::data_sent) sent[chunk] = i, --in_flight;
  }
  REQUIRE(sent.size() == 16);
  CHECK(most <= 3);
  CHECK(most >= 2);
  for (std::uint32_t c = 1; c < 3; ++c) CHECK(gather_started[c] < sent[c - 1]);
}
