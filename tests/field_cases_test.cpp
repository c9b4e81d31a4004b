// Failures that people have met elsewhere, each under its number, on toy transfers over Loopback
// with a clock and copies that the test moves. Those over a simulated network are in
// field_cases_sim_test.cpp, those over UCX in ucx_field_cases_test.cpp.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <malloc.h>

#include "support/catch.hpp"
#include "support/counted_host.hpp"
#include "support/kept_for_good.hpp"
#include "support/sanitized.hpp"
#include "support/stranger.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

template <class Nodes>
void lose(Nodes& n, MessageKind kind) {
  n.network->set_filter(
      [=](Passing const& p) { return kind_of(p) == kind ? Fate::drop : Fate::deliver; });
}
template <class Nodes>
void stall_data(Nodes& n) {
  n.network->set_filter([](Passing const& p) {
    return kind_of(p) == MessageKind::data ? Fate::stall : Fate::deliver;
  });
}
template <class Nodes>
void expect_exact(Nodes& n, PeerId peer, std::uint64_t request, std::size_t first) {
  auto const g = n.grant(request, first, 10);
  auto const t = n.write(peer, request, first, 10);
  n.settle();
  REQUIRE(t.outcome());
  INFO(t.outcome()->why);
  CHECK(t.outcome()->ok());
  CHECK(std::equal(n.pool.begin() + static_cast<long>(first * span_bytes),
                   n.pool.begin() + static_cast<long>((first + 10) * span_bytes),
                   n.source.begin() + static_cast<long>(first * span_bytes)));
}

}  // namespace

TEST_CASE("C01 no scatter starts under a grant whose proof has been given out", "[field][C01]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  stall_data(n);
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  // DATA has come, the receiver has not looked yet, and the pages go back.
  REQUIRE(n.network->release() == 1);
  REQUIRE(g.revoke({}));
  n.settle();
  CHECK(n.untouched());
  CHECK(n.held_b->started(CopyKind::scatter) == 0);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);
}

TEST_CASE("C02 requests whose ids agree modulo 4,096, 2^23 or 2^32 run side by side exactly",
          "[field][C02]") {
  TwoNodes n(32, 32);
  auto const peer = n.connect();
  std::uint64_t const ids[] = {5, 5 + 4096, 5 + (1u << 23), 5 + (std::uint64_t{1} << 32)};
  n.held_b->hold(CopyKind::scatter);
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < 4; ++i) {
    auto const count = i % 2 == 0 ? 10u : 6u;
    grants.push_back(n.grant(ids[i], 20 * i, count));
    transfers.push_back(n.write(peer, ids[i], 20 * i, count));
  }
  n.settle();
  CHECK(n.b->metrics().transfers_running.get() == 4);
  n.held_b->run_freely(CopyKind::scatter);
  for (int round = 0; round < 4; ++round) n.held_b->release_all(), n.settle();
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(transfers[i].outcome());
    CHECK(transfers[i].outcome()->ok());
    for (std::size_t b = 0; b < 20 * span_bytes; ++b) {
      auto const at = 20 * i * span_bytes + b;
      REQUIRE(n.pool[at] == (b < (i % 2 == 0 ? 10u : 6u) * span_bytes ? n.source[at] : canary));
    }
  }
}

TEST_CASE("C04 a cancel during the wait for the source-ready event frees the sources at once",
          "[field][C04]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto event = HostEvent::create();
  auto t = n.write(peer, 1, 0, 4, seconds(1), event);
  n.settle();
  n.advance(milliseconds(10));
  t.cancel();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);
  CHECK(t.outcome()->sources_quiescent);  // true, since no gather has begun and none will
  event.fire();
  n.advance(milliseconds(50));
  CHECK(n.held_a->started(CopyKind::gather) == 0);
  CHECK(n.untouched());
  expect_exact(n, peer, 2, 20);  // nothing is lost for others
}

TEST_CASE("C04 a source-ready event that never fires costs its own transfer only", "[field][C04]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  auto never = n.write(peer, 1, 0, 4, seconds(1), HostEvent::create());
  n.settle();
  expect_exact(n, peer, 2, 20);
  n.advance(seconds(1));
  REQUIRE(never.outcome());
  CHECK(never.outcome()->reason == Reason::deadline);
  expect_exact(n, peer, 3, 40);
}

TEST_CASE("C09 a CONTROL that is replayed byte by byte never runs again", "[field][C09]") {
  TwoNodes n;
  Stranger x(n);
  x.meet();
  auto g = std::make_optional(n.grant(1, 0, 4));
  auto const control = Stranger::encoded(x.control(2, 1, 1024));
  x.send(control);
  REQUIRE(x.ready(2));
  x.send_data(2, 0, 1024, std::byte{1});
  REQUIRE(g->next({}));
  CHECK(n.pool[0] == std::byte{1});
  bool const reused = GENERATE(false, true);
  if (reused) {
    REQUIRE(g->revoke({}));
    g = n.grant(8, 0, 4);  // the blocks are another request's
  }
  auto const before = n.pool;
  x.send(control);
  CHECK_FALSE(x.ready(2));
  x.send_data(2, 0, 1024, std::byte{2});
  CHECK(n.pool == before);
  CHECK(n.b->metrics().stale_ignored.get() == 1);
  CHECK(n.b->metrics().received.started.get() == 1);
}

TEST_CASE("C09 a plan that is not what its descriptors make is refused before READY",
          "[field][C09]") {
  TwoNodes n;
  Stranger x(n);
  x.meet();
  auto const g = n.grant(1, 0, 8);
  auto c = x.control(2, 1, 2048);
  SECTION("one chunk more") { c.chunks = 3; }
  SECTION("one chunk less") { c.chunks = 1; }
  SECTION("no chunk") { c.chunks = 0; }
  SECTION("chunks without end") { c.chunks = ~0u; }
  SECTION("one byte more") { c.bytes += 1; }
  SECTION("one byte less") { c.bytes -= 1; }
  SECTION("one span more") { c.spans = 2; }
  SECTION("no span") { c.spans = 0; }
  SECTION("slices of nothing") { c.slice_bytes = 0; }
  SECTION("slices longer than agreed") { c.slice_bytes = slice_bytes + 1; }
  SECTION("a digest that is not known") { c.digest = 77; }
  SECTION("payloads written into staging that is not shared") { c.placed = true; }
  SECTION("no descriptors") { c.segment = {}; }
  x.send(Stranger::encoded(c));
  auto const ready = x.ready(2);
  REQUIRE(ready);
  CHECK(ready->reason == Reason::refused);
  CHECK_FALSE(ready->text.empty());
  CHECK(n.untouched());
  CHECK(n.b->metrics().received.ended[static_cast<std::size_t>(Reason::refused)].get() == 1);
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
  CHECK(n.b->metrics().sweeps.get() == 0);
}

TEST_CASE("C14 only the request named in the call goes on the wire", "[field][C14]") {
  TwoNodes n;
  auto const peer = n.connect();
  std::vector<RequestId> named;
  n.network->set_filter([&](Passing const& p) {
    if (auto const c = wire::decode_control(p.bytes)) named.push_back(c->request);
    return Fate::deliver;
  });
  expect_exact(n, peer, 1001, 0);
  CHECK(named == std::vector{RequestId{1001}});
  // Nobody has granted the id that the sender uses among its own: an answer, not a hang.
  auto const g = n.grant(7, 20, 4);
  auto const t = n.write(peer, 1002, 20, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::refused);
  CHECK_THAT(t.outcome()->why, Catch::Contains("1002"));
  CHECK_THROWS_AS(n.write(peer, 0, 20, 4), Error);
  CHECK_THROWS_AS(n.grant(0, 40, 4), Error);
}

TEST_CASE("C24 READY that comes after the sender's deadline starts no gather", "[field][C24]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  n.network->set_filter([](Passing const& p) {
    return kind_of(p) == MessageKind::ready ? Fate::stall : Fate::deliver;
  });
  auto t = n.write(peer, 1, 0, 4, milliseconds(200));
  n.settle();
  n.advance(milliseconds(200));
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::deadline);
  CHECK(t.outcome()->sources_quiescent);
  for (auto& x : n.source) x = std::byte{0};  // the pages are another request's
  (void)n.network->release();
  n.advance(milliseconds(100));
  CHECK(n.held_a->started(CopyKind::gather) == 0);
  CHECK(n.untouched());
}

TEST_CASE("C24 a transfer does not outlive the grant that it runs under", "[field][C24]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10, milliseconds(100));
  lose(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 10, seconds(10));
  n.settle();
  n.advance(milliseconds(99));
  CHECK_FALSE(g.next({}));
  n.advance(milliseconds(2));
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->reason == Reason::deadline);
  REQUIRE(t.outcome());  // it is told, and does not wait out its own time
  CHECK_FALSE(t.outcome()->ok());
}

TEST_CASE("C26 memory of a cancelled transfer stays registered until it has drained, 1,000 times",
          "[field][C26]") {
  TwoNodes n(8, 8);
  auto peer = n.connect();
  for (std::uint64_t round = 1; round <= rounds(1000); ++round) {
    std::vector<std::byte> pool(12 * span_bytes, canary);
    LocalSpan const all{pool.data(), pool.size()};
    n.b->register_memory(all);
    auto g = n.b->grant(RequestId{round}, std::vector{all}, seconds(10));
    n.held_b->hold(CopyKind::scatter);
    auto const from = n.sources(0, 12);
    auto t = n.a->write(peer, {.request = RequestId{round},
                               .sources = std::vector{LocalSpan{n.source.data(), pool.size()}},
                               .destinations = TwoNodes<>::remote({all}),
                               .deadline = seconds(1)});
    n.settle();
    t.cancel();
    n.settle();
    REQUIRE(t.outcome());
    REQUIRE_FALSE(g.revoke({}));  // draining
    REQUIRE_THROWS_AS(n.b->deregister_memory(all), Error);
    n.held_b->run_freely(CopyKind::scatter);
    n.held_b->release_all();
    n.advance(milliseconds(6));
    REQUIRE(g.revoke({}));
    n.b->deregister_memory(all);  // and from here on the memory may go
    n.network->advance(seconds(121));
    n.settle();
  }
  n.advance(seconds(1));
  CHECK(adds_up(n.b->metrics()));
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
}

TEST_CASE("C27 bytes that come after the deadline find memory that is kept for them",
          "[field][C27]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = std::make_optional(n.grant(1, 0, 8));
  stall_data(n);
  (void)n.write(peer, 1, 0, 8, milliseconds(50));  // nobody keeps the handle
  n.settle();
  n.advance(milliseconds(50));
  auto const o = g->next({});
  REQUIRE(o);
  CHECK(o->reason == Reason::deadline);
  REQUIRE(g->revoke({}));
  g.reset();
  auto const held = n.b->metrics().staging_quarantined.get();
  CHECK(held == 2 * slice_bytes);
  n.advance(milliseconds(30));
  CHECK(n.network->release() == 2);
  n.advance(milliseconds(10));
  CHECK(n.untouched());
  CHECK(n.b->metrics().staging_quarantined.get() == held);  // no return, single or double
  CHECK(n.b->metrics().sweeps.get() == 1);
  n.network->set_filter({});
  n.advance(seconds(121));
  n.advance(milliseconds(20));
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
}

TEST_CASE("C30 copies that end in another order than they began are told apart", "[field][C30]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 8);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  REQUIRE(n.held_b->started(CopyKind::scatter) == 2);
  n.held_b->release(1);  // the fast stream
  n.advance(milliseconds(10));
  CHECK_FALSE(t.outcome());
  CHECK_FALSE(g.next({}));
  n.held_b->release(0);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 8));
}

TEST_CASE("C33 a transfer of which a chunk failed is failed as a whole", "[field][C33]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 16);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 16);
  n.settle();
  n.held_b->release(0);
  n.settle();
  n.held_b->fail(1);
  n.settle();
  n.held_b->release_all();
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->status == Status::failed);
  CHECK_FALSE(g.next({}));  // no part of it is ever reported as landed
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::failed);
  CHECK(n.b->metrics().received.landed.get() == 0);
  CHECK(n.b->metrics().received.bytes_landed.get() == 0);
}

TEST_CASE("C35 C65 a list of any length arrives whole and costs one gather and scatter a chunk",
          "[field][C35][C65]") {
  constexpr std::uint64_t small = 16;
  for (std::size_t const count : {1u, 340u, 341u, 342u, 854u, 855u, 10'000u, 655'360u}) {
    TwoNodes n;
    auto const peer = n.connect();
    // Every second piece, in no order on the receiver's side, so that nothing packs or merges well.
    std::vector<std::byte> from(2 * count * small), to(2 * count * small, canary);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = pattern(4, i);
    n.b->register_memory({to.data(), to.size()});
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    std::vector<LocalSpan> sources, granted;
    for (std::size_t i = 0; i < count; ++i) {
      sources.push_back({from.data() + 2 * i * small, small});
      granted.push_back({to.data() + 2 * order[i] * small, small});
    }
    auto const g = n.b->grant(RequestId{1}, granted, seconds(10));
    auto const destinations = TwoNodes<>::remote(granted);
    auto const t = n.a->write(peer, {.request = RequestId{1},
                                     .sources = sources,
                                     .destinations = destinations,
                                     .deadline = seconds(10)});
    for (int turn = 0; turn < 100 && !t.outcome(); ++turn) n.settle();
    INFO(count);
    REQUIRE(t.outcome());
    CHECK(t.outcome()->ok());
    bool exact = true;
    for (std::size_t i = 0; i < count; ++i)
      exact =
          exact && std::equal(granted[i].address, granted[i].address + small, sources[i].address);
    CHECK(exact);
    auto const chunks = (count * small + slice_bytes - 1) / slice_bytes;
    CHECK(n.held_a->started() == chunks);
    CHECK(n.held_b->started() == chunks);
  }
}

TEST_CASE("C36 C42 staging of cancelled transfers serves again, without traffic to make it so",
          "[field][C36][C42]") {
  TwoNodes n(8, 8);
  auto const peer = n.connect();
  auto const whole = n.b->metrics().staging_total.get();
  lose(n, MessageKind::data);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    auto g = n.grant(i, 20 * i, 8);
    auto t = n.write(peer, i, 20 * i, 8, seconds(10));
    n.settle();
    t.cancel();
    n.settle();
    REQUIRE(t.outcome());
  }
  n.advance(seconds(1));  // nothing of them comes to rest by itself: their DATA was lost
  n.advance(milliseconds(6));
  CHECK(n.b->metrics().staging_quarantined.get() == 6 * slice_bytes);
  // What is left still serves, and nobody waits past a deadline for what is not.
  n.network->set_filter({});
  expect_exact(n, peer, 10, 100);
  n.advance(seconds(121));  // no call is made
  for (int i = 0; i < 10; ++i) n.advance(milliseconds(6));
  CHECK(n.b->metrics().staging_free.get() == whole);
  for (std::uint64_t i = 11; i < 20; ++i) expect_exact(n, peer, i, 20 * i);
}

TEST_CASE("C39 what has arrived counts before the deadline, however late one looks",
          "[field][C39]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 4);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 4, milliseconds(500));
  n.settle();
  n.network->advance(milliseconds(490));
  n.held_b->release_all();
  for (int i = 0; i < 10; ++i) n.b->progress();  // RESULT is queued at its sender
  n.network->advance(milliseconds(30));
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(g.next({})->ok());
}

TEST_CASE("C44 progress moves no deadline, neither the sender's nor the receiver's limit",
          "[field][C44]") {
  bool const by_receiver = GENERATE(false, true);
  TwoNodes n(64, 64, [=](auto& c) { c.receive_limit = seconds(by_receiver ? 3 : 1000); });
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 160);  // 40 chunks
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 160, seconds(by_receiver ? 100 : 3));
  n.settle();
  std::size_t released = 0;
  int steps = 0;
  for (; !t.outcome() && steps < 100; ++steps) {
    n.held_b->release(released++);
    n.settle();
    n.advance(milliseconds(100));
  }
  CHECK(steps == 30);  // 3.0 s and not one step more
  CHECK_FALSE(t.outcome()->ok());
  n.held_b->release_all();
}

TEST_CASE("C50 a reply that names another transfer is no answer", "[field][C50]") {
  TwoNodes n;
  Stranger x(n);
  auto const peer = x.met();
  auto const t = n.write(peer, 1, 0, 4);
  x.settle();
  auto const asked = x.asked();
  REQUIRE(asked);
  auto const id = to_integer(asked->header.transfer);
  wire::Ready ready;
  ready.header = asked->header;
  ready.window = 2;
  auto const wrong = GENERATE(0, 1, 2);
  if (wrong == 0) ready.header.transfer = TransferId{id + 2};
  x.send_tagged(id, MessageKind::ready, Stranger::encoded(ready));
  if (wrong > 0) {
    CHECK_FALSE(t.outcome());
    wire::Result result;
    result.header = asked->header;
    result.bytes = asked->bytes;
    if (wrong == 1) result.header.transfer = TransferId{id + 2};
    if (wrong == 2) result.header.generation = Generation{77};
    x.send_tagged(id, MessageKind::result, Stranger::encoded(result));
  }
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::integrity);
  CHECK_THAT(t.outcome()->why, Catch::Contains("does not belong to this transfer"));
}

TEST_CASE("C50 what nobody wanted is thrown away and counted", "[field][C50]") {
  TwoNodes n;
  Stranger x(n);
  x.meet();
  // DATA of a transfer that is yet to come, as a peer that repeats itself may have left it.
  for (int i = 0; i < 3; ++i) x.send_data(2, 0, 1024, std::byte{9});
  n.advance(milliseconds(20));
  CHECK(n.b->metrics().unexpected_sunk.get() == 3);
  auto const g = n.grant(1, 0, 4);
  x.send(Stranger::encoded(x.control(2, 1, 1024)));
  REQUIRE(x.ready(2));
  CHECK(n.untouched());
  x.send_data(2, 0, 1024, std::byte{1});
  CHECK(n.pool[0] == std::byte{1});
}

TEST_CASE("C54 what was mapped of a dead peer is unmapped without any new connection",
          "[field][C54]") {
  auto const mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find("b10 staging") != line.npos;
    return count;
  };
  TwoNodes<SharingNode> n;
  (void)n.connect();
  auto const connected = mappings();
  n.b.reset();
  n.settle();
  n.advance(milliseconds(20));
  CHECK(mappings() + 3 == connected);  // b's own, b's of a, a's of b
}

TEST_CASE(
    "C69 C36 staging of one short view moves more than it holds, in pieces of the smaller side",
    "[field][C69]") {
  using Small = Node<tag::Hashed, slicing::Whole>;
  TwoNodes<Small> n(1, 1, [](auto& c) { c.staging.buffer_bytes = c.name == "a" ? 1024 : 768; });
  auto const peer = n.connect();
  std::uint64_t longest = 0;
  n.network->set_filter([&](Passing const& p) {
    if (auto const h = wire::decode_data_header(p.bytes)) longest = std::max(longest, h->bytes);
    return Fate::deliver;
  });
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    auto const first = i * 7 % 1000;
    auto const g = n.grant(i, first, 10);
    auto const t = n.write(peer, i, first, 10);  // contiguous: one span of 2,560 B
    n.settle();
    REQUIRE(t.outcome());
    REQUIRE(t.outcome()->ok());
  }
  CHECK(longest == 768);
  for (auto const* node : {n.a.get(), n.b.get()})
    CHECK(node->metrics().staging_free.get() == node->metrics().staging_total.get());
}

TEST_CASE("C74 time points and durations cannot be mixed, and only durations are on the wire",
          "[field][C74]") {
  auto const adds = [](auto a, auto b) { return requires { a + b; }; };
  STATIC_REQUIRE_FALSE(adds(Instant{}, Instant{}));
  STATIC_REQUIRE(adds(Instant{}, Duration{}));
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Instant, Duration>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Duration, Instant>);
  STATIC_REQUIRE(std::is_same_v<decltype(wire::Control::remaining), Duration>);
  STATIC_REQUIRE(std::is_same_v<decltype(Instant{} - Instant{}), Duration>);
}

TEST_CASE("C77 a transceiver ends while connecting, idle, twice, and with its peer silent",
          "[field][C77]") {
  TwoNodes n;
  SECTION("before connect has finished") {
    auto const c = n.a->begin_connect("b", seconds(100));
    n.a->progress();
    n.a.reset();
    CHECK(c.done());
    CHECK_FALSE(c.peer());
  }
  SECTION("idle, and again") {
    (void)n.connect();
    n.a->shutdown(seconds(1));
    n.a->shutdown(seconds(1));
    auto const c = n.a->begin_connect("b", seconds(1));
    CHECK(c.done());
    CHECK_THAT(c.error(), Catch::Contains("shut down"));
  }
  SECTION("with a peer that does not turn") {
    auto const peer = n.connect();
    auto const t = n.write(peer, 1, 0, 4, seconds(100));
    for (int i = 0; i < 10; ++i) n.a->progress();
    n.a.reset();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->reason == Reason::shutting_down);
  }
}

TEST_CASE("C77 C08 memory that a copy may still use outlives its transceiver", "[field][C77]") {
  KeptForGood const on_purpose;
  TwoNodes n;
  auto const peer = n.connect();
  auto g = std::make_optional(n.grant(1, 0, 8));
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  REQUIRE(n.held_b->pending() == 2);
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK_FALSE(g->revoke({}));
  g.reset();
  SECTION("the transceiver ends at once") {}
  SECTION("long after its quarantine") {
    n.advance(seconds(121));
    CHECK(n.b->metrics().staging_abandoned.get() == 2 * slice_bytes);
    CHECK(adds_up(n.b->metrics()));
  }
  n.b.reset();
  n.held_b->release_all();  // reads staging, spans and events of the transceiver that was
  CHECK(n.exactly(0, 8));
}

TEST_CASE("C78 a hundred thousand transfers and a thousand reconnects leave nothing behind",
          "[field][C78]") {
  TwoNodes n(8, 8, [](auto& c) { c.recorder_events = 0; });
  auto const peer = n.connect();
  std::uint64_t request = 0;
  auto const run = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ++request;
      auto const g = n.grant(request, request % 1000, 1);
      auto const t = n.write(peer, request, request % 1000, 1);
      for (int turn = 0; turn < 20 && !t.outcome(); ++turn) n.a->progress(), n.b->progress();
      REQUIRE(t.outcome());
      REQUIRE(t.outcome()->ok());
    }
  };
  auto const reconnect = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      n.network->cut("b");
      n.settle();
      run(1);
      n.advance(milliseconds(6));
    }
  };
  auto const heap = [] { return static_cast<std::int64_t>(mallinfo2().uordblks); };
  // The copies of the test's own engine are kept for ever, so they are counted out.
  run(1000), reconnect(100);
  auto const at_first = heap();
  auto const copies = n.held_a->started() + n.held_b->started();
  run(rounds(100'000)), reconnect(rounds(1000));
  auto const kept = static_cast<std::int64_t>(n.held_a->started() + n.held_b->started() - copies) *
                    3 * static_cast<std::int64_t>(sizeof(SpanRun) + 32);
  CHECK(heap() - at_first < kept + (1 << 20));
  for (auto const* node : {n.a.get(), n.b.get()}) {
    CHECK(node->metrics().tags_active.get() == 0);
    CHECK(node->metrics().tags_quarantined.get() == 0);
    CHECK(node->metrics().generations_penned.get() == 0);
    CHECK(node->metrics().staging_free.get() == node->metrics().staging_total.get());
  }
}

TEST_CASE("C83 each failure raises the counter of its cause, once on each side", "[field][C83]") {
  struct Row {
    char const* what;
    std::function<void(TwoNodes<>&)> fault;
    Reason sent, received;
  };
  auto const lost = [](MessageKind kind) { return [=](TwoNodes<>& n) { lose(n, kind); }; };
  Row const rows[] = {
      {"READY lost", lost(MessageKind::ready), Reason::deadline, Reason::deadline},
      {"DATA lost", lost(MessageKind::data), Reason::deadline, Reason::deadline},
      {"RESULT lost", lost(MessageKind::result), Reason::deadline, Reason::none},
      {"gather failed", [](auto& n) { n.held_a->fail_all(CopyKind::gather); }, Reason::copy_failed,
       Reason::copy_failed},
      {"scatter failed", [](auto& n) { n.held_b->fail_all(CopyKind::scatter); },
       Reason::copy_failed, Reason::copy_failed},
      {"no grant", [](auto&) {}, Reason::refused, Reason::refused},
  };
  for (auto const& row : rows) {
    INFO(row.what);
    TwoNodes n;
    auto const peer = n.connect();
    auto const g = n.grant(std::string_view(row.what) == "no grant" ? 99 : 1, 0, 4);
    row.fault(n);
    auto const t = n.write(peer, 1, 0, 4);
    n.settle();
    n.advance(milliseconds(1001));
    REQUIRE(t.outcome());
    auto const check = [](Metrics::Side const& side, Reason reason) {
      CHECK(side.started.get() == 1);
      CHECK(side.failed() == (reason == Reason::none ? 0 : 1));
      CHECK(side.landed.get() == (reason == Reason::none ? 1 : 0));
      if (reason != Reason::none) CHECK(side.ended[static_cast<std::size_t>(reason)].get() == 1);
    };
    check(n.a->metrics().sent, row.sent);
    check(n.b->metrics().received, row.received);
    n.held_a->release_all(), n.held_b->release_all();
  }
}

TEST_CASE("S4 the worker is ended before the memory that it can write is given up", "[field][S4]") {
  using Counted = CountedHost<slicing::Pipelined<slice_bytes, 2>, copy::Held>;
  using Node = Transceiver<Counted, tag::Hashed, completion::CopyEvent, quarantine::Ttl<120>,
                           transport::Loopback>;
  auto const counts = std::make_shared<Counted::Counts>();
  TwoNodes<Node> n(4, 4, [&](auto& c) {
    if (c.name == "b") c.staging.counts = counts;
  });
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 8);
  stall_data(n);
  auto const t = n.write(peer, 1, 0, 8);
  n.settle();
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  // The late bytes come in the very moment in which a view is dropped: nobody must take them.
  unsigned landed = 0;
  counts->on_drop = [&] { landed += n.network->release(); };
  n.advance(seconds(121));
  CHECK(counts->dropped == 2);
  CHECK(landed == 0);
}
