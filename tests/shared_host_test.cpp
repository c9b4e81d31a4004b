// staging::SharedHost: payloads that the sender writes into the receiver's views itself. Over
// Loopback, on the test's clock, with copies that end when the test says so.
#include <b10/staging/shared_host.hpp>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "laws/staging.hpp"
#include "support/catch.hpp"
#include "support/forger.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

using Nodes = TwoNodes<SharingNode>;
using Shared = staging::SharedHost<slicing::Chunked<1024>>;

Shared::Options small(std::uint64_t views) {
  return {.buffer_bytes = 1024, .buffers = views, .refill = staging::Refill::inline_};
}

void keep_at_home(SharingNode::Config& c) { c.staging.share = false; }

/// Bytes of the longest DATA message that passes from now on.
std::shared_ptr<std::size_t> watch_data(Nodes& n) {
  auto longest = std::make_shared<std::size_t>(0);
  n.network->set_filter([longest](Passing const& p) {
    if (kind_of(p) == MessageKind::data) *longest = std::max(*longest, p.bytes.size());
    return Fate::deliver;
  });
  return longest;
}

std::string offer_with(std::string const& offer, auto change) {
  auto o = staging::decode_offer(offer).value();
  change(o);
  return staging::encode(o);
}

}  // namespace

TEST_CASE("SharedHost obeys the staging laws", "[staging][shared]") {
  laws::staging([] { return Shared(small(8)); });
}

TEST_CASE("what is written through a reach is in the view, and nowhere else", "[shared]") {
  Shared here(small(4));
  Shared there(small(4));
  std::string why;
  auto reach = there.reach(here.offer(), why);
  REQUIRE(reach);
  auto view = here.try_acquire(Use::receive);
  auto other = here.try_acquire(Use::receive);
  std::memset(view->data(), 1, staging::header_room + 1024);
  std::memset(other->data(), 1, staging::header_room + 1024);
  auto* const at = reach->at(here.place(*view), 1024);
  REQUIRE(at);
  std::memset(at, 7, 1024);
  for (std::size_t i = 0; i < staging::header_room + 1024; ++i) {
    REQUIRE(view->data()[i] == (i < staging::header_room ? std::byte{1} : std::byte{7}));
    REQUIRE(other->data()[i] == std::byte{1});
  }
  here.release(std::move(*view));
  here.release(std::move(*other));
}

TEST_CASE("a place outside of the segment or over a block's end is no place", "[shared]") {
  Shared here(small(4));
  std::string why;
  auto reach = here.reach(here.offer(), why);
  REQUIRE(reach);
  auto view = here.try_acquire(Use::receive);
  auto const place = here.place(*view);
  auto const offer = staging::decode_offer(here.offer()).value();
  CHECK(reach->at(place, 1024));
  CHECK_FALSE(reach->at(place, offer.block_bytes));
  CHECK_FALSE(reach->at(0, 1));
  CHECK_FALSE(reach->at(staging::segment_head_bytes - 1, 1));
  CHECK_FALSE(reach->at(offer.bytes, 1));
  CHECK_FALSE(reach->at(offer.bytes - 1, 2));
  CHECK_FALSE(reach->at(~std::uint64_t{0}, 1));
  CHECK_FALSE(reach->at(place, ~std::uint64_t{0}));
  here.release(std::move(*view));
}

TEST_CASE("a segment is taken for another host's, process's or pool's only if all of it fits",
          "[shared]") {
  Shared here(small(4));
  Shared other(small(4));
  auto const why_not = [&](std::string const& offer) {
    std::string why;
    CHECK_FALSE(here.reach(offer, why));
    return why;
  };
  auto const offer = other.offer();
  auto const wrong = [&](auto change) { return why_not(offer_with(offer, change)); };
  CHECK_THAT(wrong([](auto& o) { o.boot = "another"; }), Catch::Contains("another host"));
  CHECK_THAT(wrong([](auto& o) { o.pid_namespace = "pid:[1]"; }), Catch::Contains("namespace"));
  CHECK_THAT(wrong([](auto& o) { o.pid = 999'999'999; }), Catch::Contains("cannot be opened"));
  CHECK_THAT(wrong([](auto& o) { o.descriptor = 0; }),
             Catch::Contains("cannot be opened") || Catch::Contains("is none"));
  CHECK_THAT(wrong([](auto& o) { o.bytes += 4096; }), Catch::Contains("is none"));
  CHECK_THAT(wrong([](auto& o) { o.blocks = ~std::uint64_t{0}; }), Catch::Contains("contradict"));
  CHECK_THAT(wrong([](auto& o) { o.block_bytes = 0; }), Catch::Contains("contradict"));
  CHECK_THAT(wrong([](auto& o) { o.bytes = std::uint64_t{1} << 45, o.block_bytes = 1; }),
             Catch::Contains("contradict"));  // a table of all these places would not fit
  CHECK_THAT(wrong([](auto& o) { o.secret[0] = o.secret[0] == '0' ? '1' : '0'; }),
             Catch::Contains("another one"));
  CHECK_THAT(why_not(""), Catch::Contains("shares no staging"));
  for (std::size_t cut = 0; cut < offer.size(); ++cut) why_not(offer.substr(0, cut));
  why_not(offer + " 1");
  why_not(std::string(1024, 'x'));
}

TEST_CASE("a freed block's place is never used again, and what it held is gone", "[shared][S4]") {
  Shared here(small(4));
  std::string why;
  auto reach = here.reach(here.offer(), why);
  REQUIRE(reach);
  std::set<std::uint64_t> places;
  for (int i = 0; i < 40; ++i) {
    auto view = here.try_acquire(Use::send);
    REQUIRE(view);
    auto const place = here.place(*view);
    CHECK(places.insert(place).second);
    auto* const late = reach->at(place, 1024);
    here.drop(here.quarantine(std::move(*view)));
    std::memset(late, 9, 1024);  // a sender that comes late hits a hole
    for (int turn = 0; turn < 4; ++turn) here.maintain();
    auto fresh = here.try_acquire(Use::send);
    REQUIRE(fresh);
    for (std::size_t b = 0; b < 1024; ++b)
      REQUIRE(fresh->data()[staging::header_room + b] == std::byte{0});
    places.insert(here.place(*fresh));
    here.drop(here.quarantine(std::move(*fresh)));
    for (int turn = 0; turn < 4; ++turn) here.maintain();
  }
}

TEST_CASE("when each place has been used the pool shrinks and says which knob", "[shared]") {
  auto options = small(2);
  options.lives = 2;
  Shared here(options);
  for (int i = 0; i < 2; ++i) {
    here.drop(here.quarantine(std::move(*here.try_acquire(Use::send))));
    for (int turn = 0; turn < 4; ++turn) here.maintain();
  }
  CHECK(here.gauges().total == 2048);
  here.drop(here.quarantine(std::move(*here.try_acquire(Use::send))));
  for (int turn = 0; turn < 4; ++turn) here.maintain();
  CHECK(here.gauges().total == 1024);
  CHECK(here.refill_failures() > 0);
  options.lives = 0;
  CHECK_THROWS_WITH(Shared(options), Catch::Contains("Options::lives is 0"));
}

TEST_CASE("a placed WRITE lands exactly, and no payload crosses the wire", "[shared]") {
  Nodes n;
  auto const peer = n.connect();
  auto const longest = watch_data(n);
  auto g = n.grant(1, 0, 30);
  auto t = n.write(peer, 1, 0, 30);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(t.outcome()->bytes == 30 * span_bytes);
  CHECK(n.exactly(0, 30));
  CHECK(*longest == wire::data_header_bytes);
  CHECK_THAT(n.a->explain(), Catch::Contains("written into its staging from here"));
  CHECK(n.a->metrics().staging_free.get() == n.a->metrics().staging_total.get());
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
}

TEST_CASE("where staging is not shared payloads go by the transport, and explain says so",
          "[shared]") {
  Nodes n(16, 16, keep_at_home);
  auto const peer = n.connect();
  auto const longest = watch_data(n);
  auto g = n.grant(1, 0, 30);
  auto t = n.write(peer, 1, 0, 30);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 30));
  CHECK(*longest == wire::data_header_bytes + slice_bytes);
  CHECK_THAT(n.a->explain(), Catch::Contains("by the transport") && Catch::Contains("share"));
}

TEST_CASE("S5 a gather that ends after the receiver gave up hits only a quarantined view",
          "[shared][S5]") {
  Nodes n;
  auto const peer = n.connect();
  n.held_a->hold(CopyKind::gather);
  auto g = n.grant(1, 0, 8);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  REQUIRE(n.held_a->started(CopyKind::gather) == 2);
  n.advance(seconds(2));
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK_FALSE(t.outcome()->sources_quiescent);
  auto const o = g.next({});
  REQUIRE(o);
  CHECK_FALSE(o->ok());
  auto const quarantined = n.b->metrics().staging_quarantined.get();
  CHECK(quarantined == 2 * slice_bytes);

  // The next transfer gets other views; then the late gathers end, and it stays exact.
  n.held_a->run_freely(CopyKind::gather);
  auto const again = n.connect();
  auto g2 = n.grant(2, 64, 16);
  auto t2 = n.write(again, 2, 64, 16);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
  n.held_a->release_all();
  n.advance(milliseconds(10));
  CHECK(n.exactly(64, 16));
  CHECK(t.sources_released());

  n.advance(seconds(119));
  CHECK(n.b->metrics().staging_quarantined.get() == quarantined);
  n.advance(seconds(2));
  n.advance(milliseconds(100));
  CHECK(n.b->metrics().staging_quarantined.get() == 0);
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
  CHECK(adds_up(n.b->metrics()));
  CHECK(n.exactly(64, 16));
}

TEST_CASE("S2 RESULT of a placed WRITE does not leave before every scatter", "[shared][S2]") {
  Nodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 8);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  n.advance(milliseconds(500));
  REQUIRE(n.held_b->started(CopyKind::scatter) == 2);
  CHECK_FALSE(t.outcome());
  n.held_b->release_all();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(0, 8));
}

TEST_CASE("lost PLACES or lost DATA of a placed WRITE fail it by its deadline", "[shared][S9]") {
  // READY brings the places of the first window, which is two chunks; PLACES the others.
  auto const [kind, landed] =
      GENERATE(std::pair{MessageKind::places, 8u}, std::pair{MessageKind::data, 0u});
  Nodes n;
  auto const peer = n.connect();
  n.network->set_filter(
      [k = kind](Passing const& p) { return kind_of(p) == k ? Fate::drop : Fate::deliver; });
  auto g = n.grant(1, 0, 24);
  auto t = n.write(peer, 1, 0, 24);
  n.settle();
  CHECK_FALSE(t.outcome());
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK(n.exactly(0, landed));
  CHECK(adds_up(n.a->metrics()));
  CHECK(adds_up(n.b->metrics()));
}

TEST_CASE("places in a READY that nobody asked for fail that transfer and write nothing",
          "[shared]") {
  TwoNodes n;  // not sharing
  auto const peer = n.connect();
  Forger f(n.network, [](Passing const& p) { return wire::decode_ready(p.bytes).has_value(); });
  auto g = n.grant(1, 0, 8);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  auto more = wire::decode_ready(f.message);
  REQUIRE(more);
  std::uint64_t const place = 64;
  more->places = {&place, 1};
  f.message.resize(wire::reply_bytes_max);
  f.message.resize(wire::encode(*more, f.message).size());
  f.deliver("a");
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::protocol);
  CHECK_THAT(t.outcome()->why, Catch::Contains("READY gives 1 places"));
  CHECK(n.untouched());
}

TEST_CASE("many placed transfers at once, more than there are views, all land", "[shared]") {
  Nodes n(6, 6);
  auto const peer = n.connect();
  std::vector<Grant> grants;
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 0; i < 60; ++i) {
    grants.push_back(n.grant(i + 1, i * 16, 16));
    transfers.push_back(n.write(peer, i + 1, i * 16, 16));
  }
  n.settle();
  for (auto const& t : transfers) {
    REQUIRE(t.outcome());
    CHECK(t.outcome()->ok());
  }
  CHECK(n.exactly(0, 960));
}

namespace {

/// Names places that its segment does not have, while `lies`.
class Liar : public staging::SharedHost<slicing::Pipelined<support::slice_bytes, 2>, copy::Held> {
  using Base = staging::SharedHost<slicing::Pipelined<support::slice_bytes, 2>, copy::Held>;

 public:
  struct Options : Base::Options {
    bool const* lies = nullptr;
  };
  explicit Liar(Options const& o) : Base(o), lies_(o.lies) {}
  [[nodiscard]] std::uint64_t place(View const& view) const noexcept {
    return *lies_ ? ~std::uint64_t{0} - 100 : Base::place(view);
  }

 private:
  bool const* lies_;
};

}  // namespace

TEST_CASE("a place that the receiver has not offered fails that transfer, and nothing is written",
          "[shared]") {
  using LyingNode = Node<tag::Hashed, slicing::Pipelined<slice_bytes, 2>, Liar>;
  bool lies = true;
  TwoNodes<LyingNode> n(16, 16, [&](auto& c) { c.staging.lies = &lies; });
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 8);
  auto t = n.write(peer, 1, 0, 8);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::protocol);
  CHECK_THAT(t.outcome()->why, Catch::Contains("not in the staging it has offered"));
  CHECK(n.held_a->started(CopyKind::gather) == 0);
  CHECK(n.untouched());
  lies = false;
  auto const again = n.connect();
  auto g2 = n.grant(2, 0, 8);
  auto t2 = n.write(again, 2, 0, 8);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
  CHECK(n.exactly(0, 8));
}
