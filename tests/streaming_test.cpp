// Long descriptor lists: the first chunks move while the rest of the list is still on its way.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

constexpr std::size_t blocks_total = 8192;

/// A transfer of blocks that are scattered on both sides, so that its list takes several frames.
struct LongList : TwoNodes<> {
  LongList() : TwoNodes(64, 64) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = pattern(3, i);
    b->register_memory({to.data(), to.size()});
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    // Every second block, so that no two spans are neighbours and merge.
    for (std::size_t i = 0; i < order.size(); ++i) {
      sources.push_back({from.data() + 2 * i * span_bytes, span_bytes});
      granted.push_back({to.data() + 2 * order[i] * span_bytes, span_bytes});
    }
    peer = connect();
    network->set_filter([this](Passing const& p) {
      auto const kind = kind_of(p);
      if (kind == MessageKind::descriptors) ++descriptors;
      if (kind == MessageKind::ready && descriptors_at_ready == none)
        descriptors_at_ready = descriptors;
      return kind == MessageKind::descriptors && descriptors > pass ? Fate::drop : Fate::deliver;
    });
  }
  Transfer write_all() {
    auto const destinations = remote(granted);
    return a->write(peer, {.request = RequestId{1},
                           .sources = sources,
                           .destinations = destinations,
                           .deadline = seconds(1)});
  }
  /// Blocks that hold what they shall; the rest must hold the canary.
  [[nodiscard]] std::size_t landed() const {
    std::size_t count = 0;
    std::vector<bool> known(2 * blocks_total, false);
    for (std::size_t i = 0; i < granted.size(); ++i) {
      auto const* const at = granted[i].address;
      bool const right = std::equal(at, at + span_bytes, sources[i].address);
      if (!right && std::count(at, at + span_bytes, canary) != static_cast<long>(span_bytes))
        return none;
      count += right;
      known[static_cast<std::size_t>(at - to.data()) / span_bytes] = true;
    }
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i]) continue;
      auto const* const at = to.data() + i * span_bytes;
      if (std::count(at, at + span_bytes, canary) != static_cast<long>(span_bytes)) return none;
    }
    return count;
  }

  static constexpr std::size_t none = ~std::size_t{0};
  std::vector<std::byte> from = std::vector<std::byte>(2 * blocks_total * span_bytes);
  std::vector<std::byte> to = std::vector<std::byte>(2 * blocks_total * span_bytes, canary);
  std::vector<std::size_t> order = std::vector<std::size_t>(blocks_total);
  std::vector<LocalSpan> sources{};
  std::vector<LocalSpan> granted{};
  PeerId peer{};
  std::size_t pass = none;  ///< descriptor frames that are let through
  std::size_t descriptors = 0;
  std::size_t descriptors_at_ready = none;
};

}  // namespace

TEST_CASE("READY leaves while descriptors are still coming, and everything lands exactly",
          "[streaming][P6]") {
  LongList n;
  auto g = n.b->grant(RequestId{1}, n.granted, seconds(100));
  auto t = n.write_all();
  n.settle();
  REQUIRE(t.outcome());
  INFO(t.outcome()->why);
  CHECK(t.outcome()->ok());
  REQUIRE(n.descriptors >= 4);
  CHECK(n.descriptors_at_ready < n.descriptors);
  CHECK(n.landed() == blocks_total);
  CHECK(n.b->metrics().staging_free.get() == n.b->metrics().staging_total.get());
}

TEST_CASE("without a grant of its own a transfer is checked as a whole before READY",
          "[streaming]") {
  LongList n;
  auto t = n.write_all();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::refused);
  CHECK_THAT(t.outcome()->why, Catch::Contains("no grant"));
  CHECK(n.landed() == 0);
  CHECK(n.b->metrics().staging_quarantined.get() == 0);
}

TEST_CASE("descriptors that never come fail the transfer by its deadline, what landed is exact",
          "[streaming][S9]") {
  LongList n;
  n.pass = 1;
  auto g = n.b->grant(RequestId{1}, n.granted, seconds(100));
  auto t = n.write_all();
  n.settle();
  CHECK_FALSE(t.outcome());
  auto const moved = n.landed();
  CHECK(moved != LongList::none);
  CHECK(moved > 0);
  CHECK(moved < blocks_total);
  n.advance(seconds(1));
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK(n.b->metrics().staging_quarantined.get() > 0);
  CHECK(adds_up(n.b->metrics()));
  CHECK(n.landed() != LongList::none);
}

TEST_CASE("a span outside the grant late in the list fails the transfer and is never written",
          "[streaming][S1]") {
  LongList n;
  auto allowed = n.granted;
  std::swap(n.granted[8000], n.granted.back());  // anywhere late
  auto const forbidden = n.granted[8000];
  std::erase_if(allowed, [&](auto const& s) { return s.address == forbidden.address; });
  auto g = n.b->grant(RequestId{1}, allowed, seconds(100));
  auto t = n.write_all();
  n.settle();
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK_THAT(t.outcome()->why, Catch::Contains("not inside the grant"));
  CHECK(std::count(forbidden.address, forbidden.address + span_bytes, canary) ==
        static_cast<long>(span_bytes));
  CHECK(n.landed() != LongList::none);
  // What had begun sits out; the next transfer is exact.
  auto const again = n.connect();
  auto g2 = n.grant(2, 0, 16);
  auto t2 = n.write(again, 2, 0, 16);
  n.settle();
  REQUIRE(t2.outcome());
  CHECK(t2.outcome()->ok());
}

TEST_CASE("a grant that is revoked and given anew in the middle of a list is another one",
          "[streaming][K2]") {
  LongList n;
  n.pass = 1;
  auto g = std::make_unique<Grant>(n.b->grant(RequestId{1}, n.granted, seconds(100)));
  auto t = n.write_all();
  n.settle();
  CHECK_FALSE(t.outcome());
  REQUIRE(g->revoke(seconds(1)));
  n.settle();
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
  CHECK(n.landed() != LongList::none);
}
