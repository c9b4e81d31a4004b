// A cancel while the link is well: everything comes to rest by itself, so nothing is quarantined.
#include <b10/transceiver.hpp>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

template <class N>
bool all_free(N const& node) {
  auto const& m = node->metrics();
  return m.staging_free.get() == m.staging_total.get() && m.tags_active.get() == 0 &&
         m.tags_quarantined.get() == 0;
}
/// Time for all that comes to rest by itself; looked at every 5 ms.
void rest(auto& n) {
  for (int i = 0; i < 10; ++i) n.advance(milliseconds(6));
}
/// Nothing of a cancelled transfer is left, and the generation serves on.
template <class Nodes>
void expect_settled(Nodes& n, PeerId peer) {
  for (auto const* node : {n.a.get(), n.b.get()}) {
    CHECK(all_free(node));
    CHECK(node->metrics().cancels_settled.get() == 1);
    CHECK(node->metrics().sweeps.get() == 1);
    CHECK(node->metrics().generations_penned.get() == 0);
  }
  auto const opened = n.a->metrics().links_opened.get();
  auto const g = n.grant(100, 500, 10);
  auto const t = n.write(peer, 100, 500, 10);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.a->metrics().links_opened.get() == opened);
}
/// Like the transport of a real network, where long messages wait for their receive.
void stall(auto& n, MessageKind kind, std::uint32_t from = 0) {
  n.network->set_filter([=](Passing const& p) {
    return kind_of(p) == kind && chunk_of(p) >= from ? Fate::stall : Fate::deliver;
  });
}

}  // namespace

TEST_CASE("A cancelled send quarantines nothing when all of it comes to rest", "[wind_down]") {
  enum class At { gathering, data, scattering };
  for (auto const at : {At::gathering, At::data, At::scattering}) {
    TwoNodes n;
    auto const peer = n.connect();
    auto g = n.grant(1, 0, 40);
    if (at == At::gathering) n.held_a->hold(CopyKind::gather);
    if (at == At::data) stall(n, MessageKind::data, 1);
    if (at == At::scattering) n.held_b->hold(CopyKind::scatter);
    auto t = n.write(peer, 1, 0, 40, seconds(60));
    n.settle();
    t.cancel();
    n.settle();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->status == Status::cancelled);
    REQUIRE(g.next({}));
    CHECK_FALSE((all_free(n.a.get()) && all_free(n.b.get())));  // something is still under way
    n.network->set_filter({});
    n.network->release();
    for (auto const& held : {n.held_a, n.held_b}) {
      held->run_freely(CopyKind::gather);
      held->run_freely(CopyKind::scatter);
      held->release_all();
    }
    rest(n);
    CHECK(t.sources_released());
    CHECK(g.revoke({}));
    expect_settled(n, peer);
  }
}

TEST_CASE("A cancel before READY quarantines nothing", "[wind_down]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  auto t = n.write(peer, 1, 0, 40, seconds(60));
  n.a->progress();
  n.a->progress();  // CONTROL has left
  t.cancel();
  n.settle();
  rest(n);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);
  CHECK(all_free(n.a.get()));
  CHECK(all_free(n.b.get()));
  CHECK(n.a->metrics().generations_penned.get() == 0);
}

TEST_CASE("A revoked grant quarantines nothing when all comes to rest", "[wind_down]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  stall(n, MessageKind::data, 2);
  auto const t = n.write(peer, 1, 0, 40, seconds(60));
  n.settle();
  REQUIRE(g.revoke({}));  // no scatter runs
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->status == Status::cancelled);
  auto const before = n.pool;
  n.network->set_filter({});
  n.network->release();
  rest(n);
  CHECK(n.pool == before);  // what was on its way has been thrown away
  expect_settled(n, peer);
}

TEST_CASE("Chunks that had left before their receive was posted are taken off the sender",
          "[wind_down]") {
  // Chunks of 64 KiB wait at their sender until they are received, see Loopback.
  using Large = Node<tag::Hashed, slicing::Pipelined<64 << 10, 4>>;
  TwoNodes<Large> n(16, 16);
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 1000);
  n.held_b->hold(CopyKind::scatter);
  auto const t = n.write(peer, 1, 0, 1000, seconds(60));
  n.settle();
  REQUIRE_FALSE(g.revoke({}));
  n.held_b->run_freely(CopyKind::scatter);
  n.held_b->release_all();
  n.settle();
  rest(n);
  CHECK(g.revoke({}));
  REQUIRE(t.outcome());
  expect_settled(n, peer);
}

TEST_CASE("Neighbours of a cancelled transfer notice nothing", "[wind_down]") {
  TwoNodes n(32, 32);
  auto const peer = n.connect();
  for (std::uint64_t round = 0; round < 50; ++round) {
    auto const base = 10 * round + 1;
    auto const g1 = n.grant(base, 0, 20);
    auto const g2 = n.grant(base + 1, 40, 20);
    auto t1 = n.write(peer, base, 0, 20);
    auto const t2 = n.write(peer, base + 1, 40, 20);
    for (std::uint64_t i = 0; i < round; ++i) {
      n.a->progress();
      n.b->progress();
    }
    t1.cancel();
    n.settle();
    rest(n);
    REQUIRE(t2.outcome());
    CHECK(t2.outcome()->ok());
  }
  CHECK(n.a->metrics().links_opened.get() == 1);
  CHECK(n.a->metrics().attempts_retried.get() == 0);
  CHECK(all_free(n.b.get()));
}

TEST_CASE("What does not come to rest in time is quarantined after all", "[wind_down]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  stall(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 40, seconds(60));
  n.settle();
  t.cancel();
  n.settle();
  n.advance(milliseconds(990));
  CHECK(n.b->metrics().staging_quarantined.get() == 0);
  n.advance(milliseconds(20));
  CHECK(n.b->metrics().staging_quarantined.get() == 2 * slice_bytes);
  CHECK(n.b->metrics().cancels_settled.get() == 0);
  CHECK(n.b->metrics().tags_quarantined.get() > 0);
  n.network->release();  // late bytes find memory that is kept for them
  n.settle();
  CHECK(n.untouched());
}

TEST_CASE("A link that goes while a cancelled transfer winds down leaves it in quarantine",
          "[wind_down]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  stall(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 40, seconds(60));
  n.settle();
  t.cancel();
  n.settle();
  CHECK(n.b->metrics().staging_quarantined.get() == 0);
  n.a.reset();
  n.settle();
  n.advance(milliseconds(6));
  CHECK(n.b->metrics().staging_quarantined.get() == 2 * slice_bytes);
}

TEST_CASE("A sender that cannot say what it has sent leaves quarantine behind", "[wind_down]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  stall(n, MessageKind::data);
  auto t = n.write(peer, 1, 0, 40, milliseconds(50));
  n.settle();
  n.advance(milliseconds(51));  // its deadline, not a cancel
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::deadline);
  CHECK(n.b->metrics().staging_quarantined.get() == 2 * slice_bytes);
  CHECK(n.b->metrics().cancels_settled.get() == 0);
}

TEST_CASE("A view that a cancelled sender still writes is not used for anything else",
          "[wind_down][shared]") {
  TwoNodes<SharingNode> n(4, 4);
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 40);
  n.held_a->hold(CopyKind::gather);
  auto t = n.write(peer, 1, 0, 40, seconds(60));
  n.settle();
  REQUIRE(n.held_a->started(CopyKind::gather) > 0);
  t.cancel();
  n.settle();
  n.advance(milliseconds(500));
  // The receiver knows of the cancel only when nobody writes its views any more.
  CHECK(n.b->metrics().staging_free.get() < n.b->metrics().staging_total.get());
  CHECK(n.b->metrics().cancels_settled.get() == 0);
  n.held_a->run_freely(CopyKind::gather);
  n.held_a->release_all();
  rest(n);
  expect_settled(n, peer);
}
