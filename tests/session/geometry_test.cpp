// Ranks of unequal shape: pure address arithmetic, with vectors.
#include <b10/session/geometry.hpp>
#include <b10/session/mapper.hpp>

#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using Catch::Contains;

namespace {

std::vector<LayerId> layers(std::uint32_t first, std::uint32_t count) {
  std::vector<LayerId> out;
  for (auto i = first; i < first + count; ++i) out.push_back(LayerId{i});
  return out;
}
/// Llama-3.1-8B, blocks of 32 tokens.
GroupGeometry llama(PageOrder order, std::uint32_t heads = 8, std::uint32_t layer_count = 32) {
  GroupGeometry g;
  g.layers = layers(0, layer_count);
  g.heads_total = heads;
  g.head_size = 128;
  g.element_bytes = 2;
  g.tokens_per_block = 32;
  g.order = order;
  return g;
}
std::vector<Fragment> split(GroupGeometry const& s, RankPlace sp, GroupGeometry const& d,
                            RankPlace dp) {
  HeadSplit const m({s, sp}, {d, dp});
  return {m.fragments().begin(), m.fragments().end()};
}
/// Copies with all senders' fragments and says how often each byte of the receiver was written.
std::vector<int> coverage(GroupGeometry const& s, std::uint32_t senders, GroupGeometry const& d,
                          RankPlace dp) {
  std::vector<int> times(slot_bytes(d, dp));
  for (std::uint32_t r = 0; r < senders; ++r)
    for (auto const& f : split(s, {senders, r}, d, dp)) {
      REQUIRE(f.source + f.bytes <= slot_bytes(s, {senders, r}));
      REQUIRE(f.destination + f.bytes <= times.size());
      for (auto i = f.destination; i < f.destination + f.bytes; ++i) ++times[i];
    }
  return times;
}

}  // namespace

TEST_CASE("A rank talks to the TP ranks that hold its heads and the PP ranks that hold its layers",
          "[session][geometry]") {
  CHECK(tp_peers({2, 0}, 4) == RankRange{0, 2});
  CHECK(tp_peers({2, 1}, 4) == RankRange{2, 4});
  CHECK(tp_peers({4, 1}, 2) == RankRange{0, 1});
  CHECK(tp_peers({4, 2}, 2) == RankRange{1, 2});
  CHECK(tp_peers({4, 3}, 4) == RankRange{3, 4});
  CHECK_THROWS_WITH(tp_peers({3, 0}, 2), Contains("TP 3 here") && Contains("TP 2 at the peer"));
  CHECK(pp_peers({8, 8}, 0, {4, 4, 4, 4}) == RankRange{0, 2});
  CHECK(pp_peers({8, 8}, 1, {4, 4, 4, 4}) == RankRange{2, 4});
  CHECK(pp_peers({3, 3, 2, 2}, 1, {10}) == RankRange{0, 1});
  CHECK(pp_peers({10}, 0, {3, 3, 2, 2}) == RankRange{0, 4});
}

TEST_CASE("Heads are spread over ranks, or each held by several", "[session][geometry]") {
  CHECK(heads_of(8, {2, 1}) == HeadRange{4, 4});
  CHECK(heads_of(2, {4, 3}) == HeadRange{1, 1});
  CHECK(heads_of(8, {16, 5}) == HeadRange{2, 1});
  CHECK_THROWS_WITH(heads_of(8, {3, 0}), Contains("8 heads over TP 3"));
}

TEST_CASE("Equal ranks move whole slots", "[session][geometry]") {
  auto const g = llama(PageOrder::tokens_first);
  Identity const m({g, {2, 1}}, {g, {2, 1}});
  REQUIRE(m.fragments().size() == 1);
  CHECK(m.fragments()[0] == Fragment{0, 0, 32ull * 2 * 4 * 32 * 128 * 2});
  CHECK_THROWS_AS(Identity({g, {2, 0}}, {g, {4, 0}}), Error);
}

TEST_CASE("A layer subset with equal heads is one contiguous run", "[session][geometry]") {
  auto const all = llama(PageOrder::heads_first, 8, 8);
  auto stage = all;
  stage.layers = layers(4, 4);  // the second of two PP stages
  HeadMatch const m({all, {}}, {stage, {}});
  auto const layer = slot_bytes(all, {}) / 8;
  REQUIRE(m.fragments().size() == 1);
  CHECK(m.fragments()[0] == Fragment{4 * layer, 0, 4 * layer});
  auto draft = all;
  draft.layers = layers(6, 4);  // layers 8 and 9 exist on one side only
  HeadMatch const common({all, {}}, {draft, {}});
  REQUIRE(common.fragments().size() == 1);
  CHECK(common.fragments()[0] == Fragment{6 * layer, 0, 2 * layer});
  CHECK_THROWS_WITH(HeadMatch({all, {1, 0}}, {all, {2, 0}}), Contains("use HeadSplit"));
}

TEST_CASE("TP2 to TP4 splits pages by layout", "[session][geometry][C56]") {
  auto const heads = llama(PageOrder::heads_first), token = llama(PageOrder::tokens_first);
  auto const by_head = split(heads, {2, 0}, heads, {4, 1});
  CHECK(by_head.size() == 64);
  CHECK(by_head[0] == Fragment{2 * 8192, 0, 16384});
  CHECK(by_head[1] == Fragment{4 * 8192 + 2 * 8192, 2 * 8192, 16384});
  auto const by_token = split(token, {2, 0}, token, {4, 1});
  CHECK(by_token.size() == 64 * 32);
  CHECK(by_token[0] == Fragment{512, 0, 512});
  CHECK(by_token[1] == Fragment{1024 + 512, 512, 512});
  // 8k tokens are 256 blocks.
  CHECK(by_head.size() * 256 == 16384);
  CHECK(by_token.size() * 256 == 524288);
  CHECK_THROWS_WITH(split(heads, {2, 0}, token, {4, 1}), Contains("page layout") &&
                                                             Contains("heads first here") &&
                                                             Contains("tokens first at the peer"));
}

TEST_CASE("Merging heads is the mirror of splitting them", "[session][geometry]") {
  for (auto const order : {PageOrder::heads_first, PageOrder::tokens_first}) {
    auto const g = llama(order, 8, 2);
    auto const there = split(g, {2, 1}, g, {4, 3}), back = split(g, {4, 3}, g, {2, 1});
    REQUIRE(there.size() == back.size());
    for (std::size_t i = 0; i < there.size(); ++i)
      CHECK(there[i] == Fragment{back[i].destination, back[i].source, back[i].bytes});
  }
}

TEST_CASE("Of ranks that hold the same head only the elected one sends", "[session][geometry]") {
  auto const g = llama(PageOrder::heads_first, 2, 1);
  for (std::uint32_t r = 0; r < 4; ++r) {
    auto const f = split(g, {4, r}, g, {2, r / 2});
    CHECK(f.empty() == (r % 2 == 1));
    if (!f.empty()) CHECK(f[0] == Fragment{0, 0, slot_bytes(g, {4, r})});
  }
  // The other way round each copy is sent.
  for (std::uint32_t r = 0; r < 4; ++r) CHECK(split(g, {2, r / 2}, g, {4, r}).size() == 1);
}

TEST_CASE("Who sends a head is found at once, however many ranks a peer claims to have",
          "[session][geometry][hostile]") {
  for (std::uint32_t total = 1; total <= 16; ++total)
    for (std::uint32_t size = 1; size <= 32; ++size) {
      if (total % size != 0 && size % total != 0) continue;
      for (std::uint32_t head = 0; head < total; ++head) {
        std::uint32_t rank = 0;
        while (!heads_of(total, {size, rank}).holds(head)) ++rank;
        CHECK(first_holder(total, size, head) == rank);
      }
    }
  auto const g = llama(PageOrder::heads_first);
  constexpr std::uint32_t many = 1u << 31;
  CHECK(heads_sent({g, {many, many / 8 * 7}}, {g, {1, 0}}) == std::vector<std::uint32_t>{7});
  CHECK(heads_sent({g, {many, many - 1}}, {g, {1, 0}}).empty());  // another is elected
}

TEST_CASE("MLA moves from one elected rank, whatever the TP sizes", "[session][geometry]") {
  GroupGeometry g;
  g.layers = layers(0, 3);
  g.mla = true;
  g.heads_total = 1;
  g.head_size = 576;
  g.element_bytes = 2;
  g.tokens_per_block = 64;
  CHECK(slot_bytes(g, {4, 2}) == 3ull * 64 * 576 * 2);
  CHECK(split(g, {4, 0}, g, {2, 0}).size() == 1);
  CHECK(split(g, {4, 1}, g, {2, 0}).empty());
  CHECK(split(g, {2, 1}, g, {2, 1}).size() == 1);
  auto other = g;
  other.mla = false;
  CHECK_THROWS_WITH(split(g, {}, other, {}), Contains("MLA here") && Contains("K and V at"));
}

TEST_CASE("State splits by section", "[session][geometry]") {
  GroupGeometry g;
  g.kind = GroupKind::state;
  g.layers = layers(0, 1);
  g.heads_total = 4;
  g.section_bytes = {10, 100};
  CHECK(split(g, {1, 0}, g, {2, 1}) == std::vector<Fragment>{{20, 0, 20}, {40 + 200, 20, 200}});
  auto other = g;
  other.section_bytes = {10};
  CHECK_THROWS_WITH(split(g, {}, other, {}),
                    Contains("number of state sections differs: 2 here, 1 at the peer"));
  other.section_bytes = {10, 101};
  CHECK_THROWS_WITH(split(g, {}, other, {}),
                    Contains("state bytes per head differs: 100 here, 101 at the peer"));
}

TEST_CASE("Over all senders each byte of a receiver's slot is written exactly once",
          "[session][geometry]") {
  for (auto const order : {PageOrder::heads_first, PageOrder::tokens_first})
    for (std::uint32_t const heads : {1u, 2u, 8u}) {
      auto g = llama(order, heads, 2);
      g.head_size = 4;
      g.tokens_per_block = 4;
      for (std::uint32_t const s : {1u, 2u, 4u, 8u})
        for (std::uint32_t const d : {1u, 2u, 4u, 8u})
          for (std::uint32_t r = 0; r < d; ++r) {
            auto const times = coverage(g, s, g, {d, r});
            CHECK(std::count(times.begin(), times.end(), 1) ==
                  static_cast<std::ptrdiff_t>(times.size()));
          }
    }
}

TEST_CASE("R34 a difference in geometry names both values", "[session][R34][geometry]") {
  auto const g = llama(PageOrder::heads_first);
  auto const refused = [&](auto change, char const* what) {
    auto other = g;
    change(other);
    CHECK_THAT(incompatibility(g, other), Contains(what));
  };
  refused([](auto& o) { o.element_bytes = 1; }, "element bytes differs: 2 here, 1 at the peer");
  refused([](auto& o) { o.tokens_per_block = 16; },
          "tokens per block differs: 32 here, 16 at the peer");
  refused([](auto& o) { o.head_size = 64; }, "head size differs: 128 here, 64 at the peer");
  refused([](auto& o) { o.heads_total = 4; }, "number of KV heads differs: 8 here, 4 at the peer");
  refused([](auto& o) { o.window = 9; }, "window differs: 0 here, 9 at the peer");
  refused([](auto& o) { o.kind = GroupKind::state; }, "paged here, state at the peer");
  CHECK(incompatibility(g, g).empty());
}
