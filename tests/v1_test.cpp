// The v1 policies keep the laws that their facts claim, and the set made of them does what B10 must
// not: each case shows the corruption that one rule of B10 prevents.
#include <b10/v1.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laws/completion.hpp"
#include "laws/quarantine.hpp"
#include "laws/tag_scheme.hpp"
#include "support/catch.hpp"
#include "support/forger.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

TEST_CASE("Low12 obeys the laws of tag schemes, and its tags recur every 4,096 ids", "[v1][C02]") {
  laws::tag_scheme(tag::Low12{});
  tag::Low12 const low12;
  MessageIdentity const m{PairDomain{1}, Generation{1}, TransferId{7}, ChunkIndex{2},
                          MessageKind::data};
  auto other = m;
  other.transfer = TransferId{7 + 4096};
  other.generation = Generation{2};
  other.domain = PairDomain{2};
  CHECK(low12.tag(m) == low12.tag(other));
  other.transfer = TransferId{8};
  CHECK(low12.tag(m) != low12.tag(other));
  STATIC_REQUIRE(tag::Low12::identities_recur);
}

TEST_CASE("SendComplete obeys the completion laws and proves nothing", "[v1]") {
  laws::completion<completion::SendComplete>();
  STATIC_REQUIRE_FALSE(completion::SendComplete::proves_landing);
}

TEST_CASE("StagingOnly and None obey the quarantine laws and hold no identities", "[v1]") {
  laws::quarantine(quarantine::StagingOnly<>{});
  laws::quarantine(quarantine::StagingOnlyMs<250>{});
  laws::quarantine(quarantine::None{});
  STATIC_REQUIRE_FALSE(quarantine::StagingOnly<>::holds_identities);
  STATIC_REQUIRE_FALSE(quarantine::None::holds_views);
  CHECK(quarantine::StagingOnly<>{}.sentence(milliseconds(9'999), false) == Sentence::hold);
  // Time alone decides, whatever may still write.
  CHECK(quarantine::StagingOnly<>{}.sentence(seconds(10), true) == Sentence::recycle);
  CHECK(quarantine::None{}.sentence({}, true) == Sentence::recycle);
}

namespace {

template <class Quarantine>
using V1 = v1::Transceiver<staging::Host<slicing::Pipelined<slice_bytes, 2>, copy::Held>,
                           Quarantine, transport::Loopback>;

template <class Nodes>
void drop(Nodes& n, MessageKind kind) {
  n.network->set_filter(
      [=](Passing const& p) { return kind_of(p) == kind ? Fate::drop : Fate::deliver; });
}

}  // namespace

TEST_CASE("A v1 set moves bytes exactly as long as nothing goes wrong", "[v1]") {
  TwoNodes<V1<quarantine::None>> n;
  auto const peer = n.connect();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    auto g = n.grant(i, 5 * i, 10);
    auto t = n.write(peer, i, 5 * i, 10);
    n.settle();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->ok());
    REQUIRE(g.next({}));
  }
  CHECK(n.exactly(5, 505));
  CHECK(n.a->metrics().staging_free.get() == n.a->metrics().staging_total.get());
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
}

TEST_CASE("A v1 set reports success although nothing has landed", "[v1]") {
  TwoNodes<V1<quarantine::None>> n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  drop(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());  // B10: unconfirmed, at its deadline
  CHECK(n.untouched());
}

TEST_CASE("A v1 set takes a message left over from another transfer of the same low 12 bits",
          "[v1][C02]") {
  TwoNodes<V1<quarantine::None>> n;
  auto const peer = n.connect();
  Forger f(n.network, data_chunk(0));
  {
    auto g = n.grant(1, 0, 4);
    auto t = n.write(peer, 1, 0, 4);
    n.settle();
    REQUIRE(g.revoke({}));
    n.settle();
  }
  f.deliver();  // it comes when nobody waits for it any more
  auto g = n.grant(1 + 4096, 8, 4);
  auto t = n.write(peer, 1 + 4096, 8, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->ok());
  // Blocks 8..11 hold the bytes of blocks 0..3, and nobody knows.
  CHECK(std::equal(n.pool.begin() + 8 * span_bytes, n.pool.begin() + 12 * span_bytes,
                   n.source.begin()));
}

TEST_CASE("A v1 set lets a late write into staging that the next transfer uses", "[v1]") {
  TwoNodes<V1<quarantine::None>> n(16, 1);  // one view, so that the next transfer gets it
  auto const peer = n.connect();
  {
    auto g = n.grant(1, 0, 4);
    n.network->set_filter([](Passing const& p) {
      return kind_of(p) == MessageKind::data ? Fate::stall : Fate::deliver;
    });
    auto t = n.write(peer, 1, 0, 4);
    n.settle();
    REQUIRE(g.revoke({}));
    n.settle();
  }
  n.network->set_filter({});
  n.held_b->hold(CopyKind::scatter);
  auto g = n.grant(2, 8, 4);
  auto t = n.write(peer, 2, 8, 4);
  n.settle();
  CHECK(n.network->release() == 1);  // over the bytes that wait to be scattered
  n.held_b->release_all();
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->ok());
  // Blocks 8..11 hold the bytes of blocks 0..3, and nobody knows.
  CHECK(std::equal(n.pool.begin() + 8 * span_bytes, n.pool.begin() + 12 * span_bytes,
                   n.source.begin()));
}

TEST_CASE("A v1 set calls pages quiet that a scatter still writes", "[v1][C01]") {
  TwoNodes<V1<quarantine::StagingOnly<>>> n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  n.held_b->hold(CopyKind::scatter);
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  REQUIRE(n.held_b->pending() == 1);
  (void)g.revoke({});
  n.settle();
  CHECK(g.revoke({}));
  CHECK(n.held_b->pending() == 1);
  n.held_b->release_all();
  n.settle();
}

TEST_CASE("A v1 set takes a short message for the whole", "[v1][C68]") {
  TwoNodes<V1<quarantine::None>> n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  Forger f(n.network, data_chunk(0));
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  f.message.resize(200);
  f.deliver();
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->ok());
  CHECK_FALSE(n.exactly(0, 4));
}
