#include <b10/core/tag_registry.hpp>

#include <b10/core/generation_ledger.hpp>

#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include <b10/tag/hashed.hpp>

#include "support/catch.hpp"

using namespace b10;
using core::GenerationLedger;
using core::TagRegistry;

namespace {

std::vector<Tag> tags(std::initializer_list<std::uint64_t> values) {
  std::vector<Tag> out;
  for (auto const v : values) out.push_back(Tag{v});
  return out;
}

}  // namespace

TEST_CASE("a tag is reserved once", "[registry]") {
  TagRegistry registry;
  CHECK(registry.reserve(tags({1, 2, 3})));
  CHECK(registry.active() == 3);
  CHECK_FALSE(registry.reserve(tags({3})));
  registry.release(tags({3}));
  CHECK(registry.reserve(tags({3})));
}

TEST_CASE("a tag that repeats in its batch refuses the whole batch", "[registry][S6]") {
  TagRegistry registry;
  CHECK_FALSE(registry.reserve(tags({1, 2, 3, 2})));
  CHECK(registry.active() == 0);
  CHECK(registry.reserve(tags({1, 2, 3})));
}

TEST_CASE("an active tag refuses the newcomer and leaves the older one alone", "[registry][S6]") {
  TagRegistry registry;
  CHECK(registry.reserve(tags({1, 2})));
  CHECK_FALSE(registry.reserve(tags({8, 9, 2, 10})));
  CHECK(registry.active() == 2);
  CHECK(registry.reserve(tags({8, 9, 10})));
  CHECK_FALSE(registry.reserve(tags({1})));
  CHECK_FALSE(registry.reserve(tags({2})));
}

TEST_CASE("a quarantined tag refuses the newcomer until it is forgotten", "[registry][S3][S6]") {
  TagRegistry registry;
  CHECK(registry.reserve(tags({1, 2})));
  registry.quarantine(tags({1, 2}));
  CHECK(registry.active() == 0);
  CHECK(registry.quarantined() == 2);
  CHECK_FALSE(registry.reserve(tags({5, 1})));
  CHECK(registry.active() == 0);
  registry.forget(tags({1}));
  CHECK(registry.reserve(tags({5, 1})));
  CHECK_FALSE(registry.reserve(tags({2})));
}

TEST_CASE("the control tag is never reserved", "[registry]") {
  TagRegistry registry;
  CHECK_FALSE(registry.reserve(tags({7, 0})));
  CHECK(registry.active() == 0);
  registry.release(tags({0}));
  registry.quarantine(tags({0}));
  registry.forget(tags({0}));
  CHECK(registry.active() + registry.quarantined() == 0);
}

TEST_CASE("an empty batch is granted", "[registry]") {
  TagRegistry registry;
  CHECK(registry.reserve({}));
  CHECK(registry.active() == 0);
}

TEST_CASE("returning a tag twice, or one that is elsewhere, changes nothing", "[registry]") {
  TagRegistry registry;
  CHECK(registry.reserve(tags({1, 2})));
  registry.release(tags({1, 1, 9}));
  registry.release(tags({1}));
  CHECK(registry.active() == 1);
  registry.quarantine(tags({1, 2, 2, 9}));
  CHECK(registry.quarantined() == 1);
  registry.release(tags({2}));  // a late success must not free what sits out
  CHECK_FALSE(registry.reserve(tags({2})));
  registry.forget(tags({2, 2, 1, 9}));
  CHECK(registry.active() + registry.quarantined() == 0);
  CHECK(registry.reserve(tags({1, 2, 9})));
  registry.forget(tags({1}));  // nor may a late sweep free what is active
  CHECK_FALSE(registry.reserve(tags({1})));
}

TEST_CASE("C02 with tags cut to 8 bits most of 300 transfers collide, and none of them silently",
          "[registry][S6][C02]") {
  TagRegistry registry;
  std::set<Tag> live;
  int collisions = 0;
  for (std::uint64_t transfer = 0; transfer < 300; ++transfer) {
    std::vector<Tag> batch;
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
      auto const full = tag::Hashed{}.tag({PairDomain{7}, Generation{1}, TransferId{transfer},
                                           ChunkIndex{chunk}, MessageKind::data});
      auto const cut = to_integer(full) & 0xff;
      batch.push_back(Tag{cut == 0 ? 1 : cut});
    }
    std::set<Tag> const distinct(batch.begin(), batch.end());
    bool clash = distinct.size() < batch.size();
    for (Tag const t : batch) clash = clash || live.count(t) > 0;
    REQUIRE(registry.reserve(batch) == !clash);
    if (clash) {
      ++collisions;
    } else {
      live.insert(batch.begin(), batch.end());
    }
    REQUIRE(registry.active() == live.size());
  }
  CHECK(collisions > 200);
  CHECK(live.size() <= 255);
}

TEST_CASE("the registry agrees with two plain sets over random calls", "[registry][K7]") {
  for (std::uint64_t const space :
       {40ull, 3'000ull}) {  // dense, so that probes run into each other
    std::mt19937_64 random(space);
    TagRegistry registry;
    std::set<Tag> active;
    std::set<Tag> quarantined;
    auto const draw = [&](std::size_t n) {
      std::vector<Tag> out;
      for (std::size_t i = 0; i < n; ++i) out.push_back(Tag{1 + random() % space});
      return out;
    };
    for (int i = 0; i < 30'000; ++i) {
      auto const batch = draw(1 + random() % 3);
      switch (random() % 4) {
        case 0: {
          std::set<Tag> const distinct(batch.begin(), batch.end());
          bool fits = distinct.size() == batch.size();
          for (Tag const t : batch) fits = fits && !active.count(t) && !quarantined.count(t);
          REQUIRE(registry.reserve(batch) == fits);
          if (fits) active.insert(batch.begin(), batch.end());
          break;
        }
        case 1:
          registry.release(batch);
          for (Tag const t : batch) active.erase(t);
          break;
        case 2:
          registry.quarantine(batch);
          for (Tag const t : batch) {
            if (active.erase(t)) quarantined.insert(t);
          }
          break;
        default:
          registry.forget(batch);
          for (Tag const t : batch) quarantined.erase(t);
      }
      REQUIRE(registry.active() == active.size());
      REQUIRE(registry.quarantined() == quarantined.size());
    }
  }
}

TEST_CASE("the registry holds tags that differ in their high bits only", "[registry]") {
  // A step that folds into few slots under a weak hash; it must work, whatever the spread.
  TagRegistry registry;
  std::vector<Tag> batch;
  for (std::uint64_t i = 1; i <= 20'000; ++i) batch.push_back(Tag{i << 40});
  CHECK(registry.reserve(batch));
  CHECK_FALSE(registry.reserve(std::span(batch).last(1)));
  registry.quarantine(batch);
  registry.forget(batch);
  CHECK(registry.active() + registry.quarantined() == 0);
}

TEST_CASE("a generation is used once, and later ones are above it", "[ledger][S7]") {
  GenerationLedger ledger;
  PairDomain const a{1};
  CHECK(ledger.last(a) == Generation{0});
  CHECK(ledger.next(a, Generation{0}) == Generation{1});
  CHECK(ledger.use(a, Generation{1}));
  CHECK_FALSE(ledger.use(a, Generation{1}));
  CHECK(ledger.next(a, Generation{0}) == Generation{2});
  CHECK(ledger.use(a, Generation{7}));
  CHECK_FALSE(ledger.use(a, Generation{6}));
  CHECK_FALSE(ledger.use(a, Generation{0}));
  CHECK(ledger.last(a) == Generation{7});
}

TEST_CASE("a generation that was overtaken is used once, as long as that can be told",
          "[ledger][S7]") {
  GenerationLedger ledger;
  PairDomain const a{1};
  CHECK_FALSE(ledger.use_overtaken(a, Generation{1}));
  CHECK(ledger.use(a, Generation{3}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{0}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{3}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{4}));
  CHECK(ledger.use_overtaken(a, Generation{2}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{2}));
  CHECK(ledger.use(a, Generation{10}));
  for (std::uint32_t n : {2u, 3u, 10u}) CHECK_FALSE(ledger.use_overtaken(a, Generation{n}));
  CHECK(ledger.use_overtaken(a, Generation{9}));
  CHECK(ledger.last(a) == Generation{10});
  CHECK(ledger.use(a, Generation{64}));
  CHECK(ledger.use_overtaken(a, Generation{1}));  // 63 below: just remembered
  CHECK(ledger.use(a, Generation{66}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{2}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{3}));
  CHECK(ledger.use(a, Generation{1000}));
  CHECK_FALSE(ledger.use_overtaken(a, Generation{66}));
  CHECK(ledger.use_overtaken(a, Generation{999}));
}

TEST_CASE("the next generation is above what both sides have used", "[ledger][S7]") {
  GenerationLedger ledger;
  CHECK(ledger.use(PairDomain{1}, Generation{5}));
  CHECK(ledger.next(PairDomain{1}, Generation{3}) == Generation{6});
  CHECK(ledger.next(PairDomain{1}, Generation{9}) == Generation{10});
  CHECK(ledger.last(PairDomain{1}) == Generation{5});  // asking records nothing
}

TEST_CASE("pair domains count apart", "[ledger][S7]") {
  GenerationLedger ledger;
  CHECK(ledger.use(PairDomain{1}, Generation{5}));
  CHECK(ledger.next(PairDomain{2}, Generation{0}) == Generation{1});
  CHECK(ledger.use(PairDomain{2}, Generation{5}));
}

TEST_CASE("generations refuse to wrap, whichever side is at the end", "[ledger][S7]") {
  constexpr Generation last{std::numeric_limits<std::uint32_t>::max()};
  GenerationLedger ledger;
  CHECK_FALSE(ledger.next(PairDomain{1}, last));
  CHECK(ledger.next(PairDomain{1}, Generation{to_integer(last) - 1}) == last);
  CHECK(ledger.use(PairDomain{1}, last));
  CHECK_FALSE(ledger.next(PairDomain{1}, Generation{0}));
  CHECK_FALSE(ledger.use(PairDomain{1}, Generation{0}));
  CHECK_FALSE(ledger.use(PairDomain{1}, Generation{1}));
  CHECK(ledger.next(PairDomain{2}, Generation{0}) == Generation{1});
}
