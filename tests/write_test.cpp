// What a WRITE promises beyond S1-S12: early release, cancel, revoke, retry, refusals. Over
// Loopback, on the test's clock; C numbers are the field cases.
#include "support/two_nodes.hpp"

#include "support/catch.hpp"

using namespace b10;
using namespace support;

namespace {
template <class Nodes>
void lose(Nodes& n, MessageKind kind) {
  n.network->set_filter(
      [=](Passing const& p) { return kind_of(p) == kind ? Fate::drop : Fate::deliver; });
}
}  // namespace

TEST_CASE("An empty request lands at once with no traffic", "[write]") {
  bool traffic = false;
  TwoNodes n;
  auto const peer = n.connect();
  n.network->set_filter([&](Passing const&) {
    traffic = true;
    return Fate::deliver;
  });
  auto t = n.write(peer, 1, 0, 0);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  n.settle();
  CHECK_FALSE(traffic);
  CHECK(n.a->metrics().sent.started.get() == 0);
}

TEST_CASE("A thousand scattered transfers leave every gauge where it was", "[write][C69]") {
  TwoNodes n;
  auto const peer = n.connect();
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    auto const first = (i * 37) % 1000;
    auto g = n.grant(i, first, 10);
    auto t = n.write(peer, i, first, 10);
    n.settle();
    REQUIRE(t.outcome());
    REQUIRE(t.outcome()->ok());
  }
  CHECK(n.a->metrics().staging_free.get() == n.a->metrics().staging_total.get());
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
  CHECK(n.a->metrics().tags_active.get() == 0);
  CHECK(n.b->metrics().tags_active.get() == 0);
  CHECK(n.b->metrics().received.landed.get() == 1000);
}

TEST_CASE("C24 sources are released when the last gather has ended, before RESULT",
          "[write][C24]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 6);
  n.held_a->hold(CopyKind::gather);
  lose(n, MessageKind::result);
  auto t = n.write(peer, 1, 0, 6);
  n.settle();
  CHECK_FALSE(t.sources_released());
  n.held_a->release(0);
  n.settle();
  CHECK_FALSE(t.sources_released());
  n.held_a->release(1);
  n.settle();
  CHECK(t.sources_released());
  CHECK_FALSE(t.outcome());
  // The pages may be reused now: staging holds the bytes.
  for (auto& x : n.source) x = std::byte{0};
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->ok());
}

TEST_CASE("C04 no gather starts before the source-ready event", "[write][C04]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto event = HostEvent::create();
  auto const fresh = n.source;
  for (auto& x : n.source) x = std::byte{0x11};  // the old content
  auto t = n.write(peer, 1, 0, 4, seconds(1), event);
  n.settle();
  n.advance(milliseconds(50));
  CHECK(n.held_a->started(CopyKind::gather) == 0);
  CHECK_FALSE(t.sources_released());
  n.source = fresh;
  event.fire();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.pool[0] == pattern(1, 0));
}

TEST_CASE("A source-ready event that failed fails its transfer only", "[write]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto g2 = n.grant(2, 8, 4);
  auto event = HostEvent::create();
  auto t = n.write(peer, 1, 0, 4, seconds(1), event);
  auto t2 = n.write(peer, 2, 8, 4);
  event.fail();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::copy_failed);
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
}

TEST_CASE("C01 a revoked grant gives its blocks back only when no scatter can touch them",
          "[write][C01]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = std::make_optional(n.grant(1, 0, 10));
  n.held_b->hold(CopyKind::scatter);
  n.network->set_filter([](Passing const& p) {
    return kind_of(p) == MessageKind::data && chunk_of(p) == 1 ? Fate::stall : Fate::deliver;
  });
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  REQUIRE(n.held_b->started(CopyKind::scatter) == 1);
  CHECK_FALSE(g->revoke({}));  // chunk 0 is being scattered
  n.settle();
  CHECK_FALSE(g->revoke({}));
  auto const cancelled = g->next({});
  REQUIRE(cancelled);
  CHECK(cancelled->status == Status::cancelled);
  CHECK_FALSE(cancelled->destinations_quiescent);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);
  n.held_b->release(0);  // the only writer of live KV ends
  n.advance(milliseconds(10));
  auto proof = g->revoke({});
  REQUIRE(proof);
  CHECK(proof->spans() == n.blocks(0, 10));

  // The blocks go to the next request, then the stalled bytes arrive.
  n.network->set_filter({});
  n.held_b->run_freely(CopyKind::scatter);
  auto g2 = n.grant(2, 0, 10);
  auto t2 = n.write(peer, 2, 0, 10);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
  CHECK(n.network->release() == 1);
  n.settle();
  CHECK(n.exactly(0, 10));
}

TEST_CASE("Revoking before anything arrives gives the proof at once, and CONTROL is refused",
          "[write][C01]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto proof = g.revoke({});
  REQUIRE(proof);
  CHECK_FALSE(g.revoke({}));  // there is no second proof
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);  // as if it had begun before
  CHECK(n.untouched());
  CHECK(n.a->metrics().sweeps.get() == 0);  // a refusal quarantines nothing
  CHECK(n.b->metrics().sweeps.get() == 0);
}

TEST_CASE("C05 a message that is lost ends both sides by the deadline", "[write][C05]") {
  for (auto kind : {MessageKind::control, MessageKind::ready, MessageKind::data}) {
    TwoNodes n;
    auto const peer = n.connect();
    auto g = n.grant(1, 0, 10);
    lose(n, kind);
    auto t = n.write(peer, 1, 0, 10, milliseconds(500));
    n.settle();
    n.advance(milliseconds(501));
    REQUIRE(t.outcome());
    CHECK_FALSE(t.outcome()->ok());
    if (kind != MessageKind::control) {
      auto const o = g.next({});
      REQUIRE(o);
      CHECK_FALSE(o->ok());
    }
    CHECK(n.b->metrics().transfers_running.get() == 0);
    CHECK(n.a->metrics().transfers_running.get() == 0);
  }
}

TEST_CASE("C05 a sender that cannot go on tells its receiver well before the deadline",
          "[write][C05]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  n.held_a->hold(CopyKind::gather);
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  n.held_a->fail(0);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::copy_failed);
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->why.find("the sender gave up") != std::string::npos);
  n.held_a->release_all();
}

TEST_CASE("A receiver whose scatter fails tells its sender well before the deadline", "[write]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  n.held_b->fail_all(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::failed);
  CHECK(t.outcome()->reason == Reason::copy_failed);
}

TEST_CASE("A scatter that cannot start fails its transfer and holds no grant back", "[write]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  n.held_b->refuse_next(CopyKind::scatter, 1);
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::copy_failed);
  CHECK(g.revoke({}));
}

TEST_CASE("C45 cancel at each step ends once on both sides and the next transfer is exact",
          "[write][C45]") {
  enum class At { before_connect, before_ready, gathering, data, before_result, after };
  for (auto at : {At::before_ready, At::gathering, At::data, At::before_result, At::after}) {
    TwoNodes n;
    auto const peer = n.connect();
    auto g = n.grant(1, 0, 10);
    if (at == At::before_ready) lose(n, MessageKind::ready);
    if (at == At::gathering) n.held_a->hold(CopyKind::gather);
    if (at == At::data) lose(n, MessageKind::data);
    if (at == At::before_result) lose(n, MessageKind::result);
    auto t = n.write(peer, 1, 0, 10, seconds(60));
    n.settle();
    t.cancel();
    t.cancel();
    n.settle();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->status == (at == At::after ? Status::landed : Status::cancelled));
    CHECK(t.outcome()->sources_quiescent == (at != At::gathering));
    if (at == At::gathering) {
      CHECK_FALSE(t.sources_released());
      n.held_a->release_all();
      n.advance(milliseconds(10));
      CHECK(t.sources_released());  // only now
    }
    auto const o = g.next({});
    REQUIRE(o);
    CHECK_FALSE(g.next({}));
    n.network->set_filter({});
    n.held_a->run_freely(CopyKind::gather);
    auto g2 = n.grant(2, 20, 10);
    auto t2 = n.write(peer, 2, 20, 10);
    n.settle();
    REQUIRE(t2.outcome());
    CHECK(t2.outcome()->ok());
    CHECK(adds_up(n.a->metrics()));
    CHECK(adds_up(n.b->metrics()));
  }
}

TEST_CASE("C17 CONTROL on a stale generation is sent once more on a fresh one", "[write][C17]") {
  TwoNodes n;
  auto const peer = n.connect();
  // The link dies between CONTROL and READY.
  auto g = n.grant(1, 0, 4);
  lose(n, MessageKind::control);
  auto t = n.write(peer, 1, 0, 4, seconds(60));
  n.settle();
  n.network->set_filter({});
  n.network->cut("b");
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.a->metrics().attempts_retried.get() == 1);
}

TEST_CASE("C17 failing neighbours end one generation after another, and a healthy transfer lands",
          "[write][C17]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  n.network->set_filter([](Passing const& p) {
    auto const control = wire::decode_control(p.bytes);
    bool const healthy = control && control->request == RequestId{1};
    return healthy || kind_of(p) == MessageKind::data ? Fate::drop : Fate::deliver;
  });
  std::optional<Transfer> healthy;
  for (std::uint64_t i = 2; i < 7; ++i) {
    auto neighbours = n.grant(i, 4 * i, 4);
    auto t = n.write(peer, i, 4 * i, 4, milliseconds(10));
    if (!healthy) healthy = n.write(peer, 1, 0, 4, seconds(60));
    n.settle();
    n.advance(milliseconds(10));
    REQUIRE(t.outcome());
    CHECK(t.outcome()->reason == Reason::deadline);
    REQUIRE_FALSE(healthy->outcome());
    CHECK(n.a->metrics().attempts_retried.get() == i - 1);
  }
  n.network->set_filter({});
  n.network->cut("b");  // one fault it survives as well
  n.settle();
  REQUIRE(healthy->outcome());
  CHECK(healthy->outcome()->ok());
  CHECK(n.exactly(0, 4));
}

TEST_CASE("A link that dies twice before READY fails the transfer as peer lost", "[write][C17]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  lose(n, MessageKind::control);
  auto t = n.write(peer, 1, 0, 4, seconds(60));
  n.settle();
  n.network->cut("b");
  n.settle();
  CHECK_FALSE(t.outcome());
  n.network->cut("b");
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::peer_lost);
}

TEST_CASE("A peer that dies during DATA fails the transfer at once on both sides", "[write]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  lose(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  n.network->cut("b");
  n.settle();
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK(t.outcome()->reason == Reason::peer_lost);
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->reason == Reason::peer_lost);
}

TEST_CASE("C10 a spent quarantine refuses new transfers with its figures, then recovers by itself",
          "[write][C10]") {
  TwoNodes n(16, 6, [](auto& c) { c.quarantine_bytes_max = 2 * slice_bytes; });
  auto const peer = n.connect();
  lose(n, MessageKind::data);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    auto g = n.grant(i, 0, 8);
    auto t = n.write(peer, i, 0, 8);
    n.settle();
    n.advance(milliseconds(1001));
    REQUIRE(t.outcome());
  }
  CHECK(n.b->health() == Health::degraded);
  auto g = n.grant(9, 0, 8);
  auto t = n.write(peer, 9, 0, 8);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::quarantine_full);
  CHECK(t.outcome()->why.find("4096 of 6144") != std::string::npos);
  CHECK(t.outcome()->why.find("quarantine_bytes_max") != std::string::npos);
  n.network->set_filter({});
  n.advance(seconds(121));  // no new traffic is needed for this
  n.advance(seconds(1));
  CHECK(n.b->health() == Health::ok);
  auto g2 = n.grant(10, 0, 8, seconds(100'000));
  auto t2 = n.write(peer, 10, 0, 8);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
}

TEST_CASE("C10 generations in quarantine have a limit of their own, for each keeps a worker",
          "[write][C10]") {
  TwoNodes n(64, 64, [](auto& c) { c.generations_penned_max = 2; });
  auto const peer = n.connect();
  lose(n, MessageKind::data);
  auto const write = [&](std::uint64_t request) {
    auto g = n.grant(request, 0, 8);
    auto t = n.write(peer, request, 0, 8);
    n.settle();
    n.advance(milliseconds(1001));
    return t.outcome().value();
  };
  for (std::uint64_t i = 1; i <= 3; ++i) CHECK(write(i).reason == Reason::deadline);
  CHECK(n.a->health() == Health::degraded);
  auto const o = write(4);
  CHECK(o.reason == Reason::quarantine_full);
  CHECK(o.why.find("3 generations quarantined, limit 2") != std::string::npos);
  CHECK(o.why.find("generations_penned_max") != std::string::npos);
  n.network->set_filter({});
  n.advance(seconds(121));
  n.advance(seconds(1));
  CHECK(n.a->health() == Health::ok);
  CHECK(write(5).ok());
}

TEST_CASE("Nodes that send to each other with little staging do not starve each other", "[write]") {
  TwoNodes n(2, 2);
  auto const to_b = n.connect();
  n.settle();
  auto const to_a = n.b->peer("a");
  REQUIRE(to_a);
  std::vector<std::byte> pool_a(64 * span_bytes, canary);
  n.a->register_memory({pool_a.data(), pool_a.size()});
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    grants.push_back(n.grant(i, 10 * i, 10));
    transfers.push_back(n.write(to_b, i, 10 * i, 10, seconds(60)));
    std::vector<LocalSpan> d{{pool_a.data() + (i - 1) * 10 * span_bytes, 10 * span_bytes}};
    grants.push_back(n.a->grant(RequestId{i}, d, seconds(1000)));
    std::vector<LocalSpan> s{{n.source.data(), 10 * span_bytes}};
    auto const r = n.remote(d);
    transfers.push_back(n.b->write(
        *to_a,
        {.request = RequestId{i}, .sources = s, .destinations = r, .deadline = seconds(60)}));
  }
  n.settle();
  for (auto& t : transfers) {
    REQUIRE(t.outcome());
    CHECK(t.outcome()->ok());
  }
}

TEST_CASE(
    "C77 a transceiver that is destroyed with transfers under way ends them and stops using memory",
    "[write][C77]") {
  TwoNodes n;
  auto const peer = n.connect();
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  lose(n, MessageKind::data);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    grants.push_back(n.grant(i, 10 * i, 10));
    transfers.push_back(n.write(peer, i, 10 * i, 10, seconds(60)));
  }
  n.settle();
  n.a.reset();
  for (auto& t : transfers) {
    REQUIRE(t.outcome());
    CHECK_FALSE(t.outcome()->ok());
    t.cancel();  // a handle outlives its transceiver
  }
  n.settle();
  for (auto& g : grants) {
    auto const o = g.next({});
    REQUIRE(o);
    CHECK_FALSE(o->ok());
  }
}

TEST_CASE("A copy engine without room delays gathers and scatters, and its deadline still counts",
          "[write]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);  // three chunks
  n.held_a->set_room(1);
  n.held_b->set_room(0);
  auto t = n.write(peer, 1, 0, 10);
  n.settle();
  CHECK(n.held_a->started(CopyKind::gather) == 1);
  CHECK(n.held_b->started(CopyKind::scatter) == 0);
  n.held_b->set_room(1);
  n.settle();
  CHECK(n.held_b->started(CopyKind::scatter) == 1);
  CHECK_FALSE(t.outcome());
  n.held_a->set_room(2);
  n.held_b->set_room(2);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 10));

  auto g2 = n.grant(2, 16, 4);
  n.held_a->set_room(0);
  auto late = n.write(peer, 2, 16, 4);
  n.settle();
  n.advance(seconds(1));
  n.settle();
  REQUIRE(late.outcome());
  CHECK(late.outcome()->reason == Reason::deadline);
  CHECK_THAT(late.outcome()->why, Catch::Contains("gathers to end"));
}
