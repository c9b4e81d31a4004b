// Block tables, pairing, slices and the slicer of a chunked prefill: pure functions, with vectors.
#include <b10/session/block_table.hpp>
#include <b10/session/kv_slice.hpp>
#include <b10/session/pairing.hpp>
#include <b10/session/prefill_slicer.hpp>

#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using Catch::Contains;

namespace {

constexpr int gone = -1;

std::vector<SlotId> slots(std::initializer_list<int> list) {
  std::vector<SlotId> out;
  for (int const s : list)
    out.push_back(s == gone ? absent : SlotId{static_cast<std::uint32_t>(s)});
  return out;
}
/// A table without a window whose entries are as listed.
BlockTable table(std::initializer_list<int> list) {
  return BlockTable({1}, list.size()).place(BlockOrdinal{0}, slots(list));
}
using Pairs = std::vector<std::pair<int, int>>;
Pairs plain(std::vector<BlockPair> const& pairs) {
  Pairs out;
  for (auto const& p : pairs)
    out.emplace_back(static_cast<int>(to_integer(p.source)),
                     static_cast<int>(to_integer(p.destination)));
  return out;
}
Pairs pair(std::initializer_list<int> source, std::initializer_list<int> destination,
           std::uint32_t start = 0) {
  return plain(pair_blocks(table(source), table(destination), BlockOrdinal{start}));
}
OrdinalRange range(std::uint32_t first, std::uint32_t end) {
  return {BlockOrdinal{first}, BlockOrdinal{end}};
}
TokenRange tokens(std::uint64_t begin, std::uint64_t end) {
  return {TokenPos{begin}, TokenPos{end}};
}
using Sets = std::vector<std::vector<std::uint32_t>>;
/// The ordinals that each chunk of a group sends.
Sets sets(BlockShape shape, std::uint64_t prompt, std::uint64_t chunk) {
  PrefillSlicer slicer({.prompt_tokens = prompt, .groups = {shape}});
  Sets out;
  for (std::uint64_t at = 0; at < prompt; at += chunk) {
    auto const made = slicer.chunk(tokens(at, std::min(prompt, at + chunk))).groups[0];
    out.emplace_back();
    for (auto i = to_integer(made.first); i < to_integer(made.end); ++i) out.back().push_back(i);
  }
  return out;
}

}  // namespace

TEST_CASE("Blocks pair by ordinal, on either side absent or not", "[session][pairing]") {
  CHECK(pair({10, 11, 12}, {20, 21, 22}) == Pairs{{10, 20}, {11, 21}, {12, 22}});
  CHECK(pair({10, 11, 12, 13}, {gone, gone, 22, 23}) == Pairs{{12, 22}, {13, 23}});
  CHECK(pair({gone, 11, 12, gone}, {20, 21, 22, 23}) == Pairs{{11, 21}, {12, 22}});
  CHECK(pair({10, gone, 12, 13}, {gone, 21, 22, gone}) == Pairs{{12, 22}});
  CHECK(pair({100, 101}, {gone, 201}) == Pairs{{101, 201}});
  CHECK(pair({10, 11, 12, 13}, {20, 21, 22, 23}, 2) == Pairs{{12, 22}, {13, 23}});
  CHECK(pair({10, gone}, {gone, 21}).empty());
  CHECK_THROWS_WITH(pair({10, 11, 12}, {20, 21}), Contains("has 3 blocks") && Contains("has 2"));
}

TEST_CASE("A table has ceil(prompt / block) entries, whatever is placed in it",
          "[session][table]") {
  auto const four = BlockTable({8}, 32).place(BlockOrdinal{0}, slots({100, 101}));
  CHECK(four == table({100, 101, gone, gone}));
  auto const receiver = BlockTable({8, 32}, 48).place(BlockOrdinal{32 / 8}, slots({104, 105}));
  CHECK(receiver == table({gone, gone, gone, gone, 104, 105}));
  CHECK(first_live({8, 32}, 48) == BlockOrdinal{2});
  CHECK(block_count({32}, 256) == 8);
  CHECK(block_count({64}, 256) == 4);
  CHECK(first_live({64, 4096}, 131072) == BlockOrdinal{2048 - 64});
  CHECK_THROWS_WITH(block_count({0, 8}, 8), Contains("tokens_per_block is 0"));
  CHECK_THROWS_WITH(BlockTable({0, 8}, 9), Contains("tokens_per_block is 0"));
  CHECK_THROWS_WITH(block_count({8}, prompt_tokens_max + 1), Contains("67108865"));
}

TEST_CASE("R11 destinations align by ordinal, not by count", "[session][R11]") {
  BlockTable const destination =
      BlockTable({4}, 32).place(BlockOrdinal{12 / 4}, slots({203, 204, 205, 206, 207}));
  auto const source = slots({102, 103, 104});
  auto const pairs =
      pair_chunk({BlockOrdinal{2}, source}, range(2, 5), destination, BlockOrdinal{12 / 4});
  CHECK(plain(pairs) == Pairs{{103, 203}, {104, 204}});
  // A block list that runs past the chunk's end is anchored by its ordinals too.
  auto const longer = slots({102, 103, 104, 105});
  auto const whole = BlockTable({4}, 32).place(BlockOrdinal{0}, slots({0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK(plain(pair_chunk({BlockOrdinal{2}, longer}, range(2, 4), whole)) ==
        Pairs{{102, 2}, {103, 3}});
}

TEST_CASE("R12 a chunk with nothing for a group is a no-op, one out of range an error",
          "[session][R12]") {
  auto const t = table({20, 21, 22, 23});
  CHECK(pair_chunk({BlockOrdinal{9}, {}}, range(9, 9), t).empty());
  CHECK_THROWS_WITH(pair_chunk({BlockOrdinal{3}, {}}, range(3, 5), t),
                    Contains("[3, 5)") && Contains("4 blocks"));
}

TEST_CASE("R13 boundaries are whole blocks: both rounded down, the last one up", "[session][R13]") {
  PrefillSlicer slicer({.prompt_tokens = 32, .groups = {{4}}});
  CHECK(slicer.chunk(tokens(0, 6)).groups[0] == range(0, 1));
  CHECK(slicer.chunk(tokens(6, 12)).groups[0] == range(1, 3));
  CHECK_FALSE(slicer.done());
  auto const last = slicer.chunk(tokens(12, 32));
  CHECK(last.groups[0] == range(3, 8));
  CHECK(last.is_last);
  CHECK(last.id == SenderSliceId{2});
  CHECK(slicer.done());

  PrefillSlicer nine({.prompt_tokens = 9, .groups = {{4}}});
  CHECK(nine.chunk(tokens(0, 3)).groups[0].empty());
  CHECK(nine.chunk(tokens(3, 5)).groups[0] == range(0, 1));
  CHECK(nine.chunk(tokens(5, 9)).groups[0] == range(1, 3));
  CHECK(sets({32}, 120, 50) == Sets{{0}, {1, 2}, {3}});  // C62
}

TEST_CASE("R14 strict mode names the bound that is no block multiple", "[session][R14]") {
  PrefillSlicer slicer({.prompt_tokens = 100, .groups = {{4}, {8}}, .strict = true});
  CHECK_THROWS_WITH(slicer.chunk(tokens(0, 12)),
                    Contains("12 is no multiple of the 8 tokens per block of layer group 1"));
  CHECK(slicer.chunk(tokens(0, 16)).groups[1] == range(0, 2));
  CHECK(slicer.chunk(tokens(16, 100)).groups[0] == range(4, 25));  // the last may be ragged
}

TEST_CASE("R15 blocks that prefill reuses are sent with the first chunk", "[session][R15]") {
  PrefillSlicer slicer({.prompt_tokens = 32, .groups = {{4}}, .reused_tokens = 12});
  CHECK(slicer.chunk(tokens(12, 20)).groups[0] == range(0, 5));
  CHECK(slicer.chunk(tokens(20, 32)).groups[0] == range(5, 8));
  // ... unless the receiver holds them: its table says so.
  CHECK(pair({0, 1, 2, 3, 4}, {gone, gone, gone, 23, 24}) == Pairs{{3, 23}, {4, 24}});
}

TEST_CASE("R16 the reused prefix may go early, and is then not repeated", "[session][R16]") {
  PrefillSlicer slicer({.prompt_tokens = 32, .groups = {{4}}, .reused_tokens = 12});
  auto const early = slicer.early_prefix();
  REQUIRE(early);
  CHECK(early->groups[0] == range(0, 3));
  CHECK_FALSE(slicer.early_prefix());
  CHECK(slicer.chunk(tokens(12, 20)).groups[0] == range(3, 5));
  auto const last = slicer.chunk(tokens(20, 32));
  CHECK(last.groups[0] == range(5, 8));
  CHECK(last.id == SenderSliceId{2});

  PrefillSlicer many({.prompt_tokens = 4000, .groups = {{32}}, .reused_tokens = 3894});
  CHECK(many.early_prefix()->groups[0] == range(0, 121));
  PrefillSlicer none({.prompt_tokens = 4000, .groups = {{32}}, .reused_tokens = 31});
  CHECK_FALSE(none.early_prefix());
  CHECK_THROWS_WITH(PrefillSlicer({.prompt_tokens = 8, .groups = {{4}}, .reused_tokens = 8}),
                    Contains("reused_tokens is 8"));
}

TEST_CASE("R17 four chunks over blocks that are allocated as they are computed send all eight once",
          "[session][R17]") {
  PrefillSlicer slicer({.prompt_tokens = 32, .groups = {{4}}});
  auto const destination = table({20, 21, 22, 23, 24, 25, 26, 27});
  std::vector<SlotId> manager;  // grows by a chunk at a time
  Pairs sent;
  for (std::uint64_t at = 0; at < 32; at += 8) {
    manager.push_back(SlotId{static_cast<std::uint32_t>(100 + manager.size())});
    manager.push_back(SlotId{static_cast<std::uint32_t>(100 + manager.size())});
    auto const chunk = slicer.chunk(tokens(at, at + 8));
    auto const slice = cut(GroupId{0}, chunk.groups[0], [&](BlockOrdinal i) {
      REQUIRE(to_integer(i) < manager.size());  // never asks for a block that is not computed
      return manager[to_integer(i)];
    });
    for (auto const& p : plain(pair_chunk(slice.run(), slice.blocks, destination)))
      sent.push_back(p);
  }
  CHECK(
      sent ==
      Pairs{
          {100, 20}, {101, 21}, {102, 22}, {103, 23}, {104, 24}, {105, 25}, {106, 26}, {107, 27}});
}

TEST_CASE("R18 windowed groups send exactly the live blocks, by ordinal", "[session][R18]") {
  CHECK(sets({32, 64}, 256, 64) == Sets{{}, {}, {}, {6, 7}});
  CHECK(sets({32, 64}, 250, 64) == Sets{{}, {}, {5}, {6, 7}});
  CHECK(sets({32, 64}, 257, 64) == Sets{{}, {}, {}, {6, 7}, {8}});
  std::size_t count = 0;
  for (auto const& s : sets({64, 4096}, 131072, 8192)) count += s.size();
  CHECK(count == 64);
  // Two slots after the first chunk are blocks 0 and 1, not the prompt's last two: nothing pairs.
  auto const destination = BlockTable({32, 64}, 256).place(BlockOrdinal{6}, slots({26, 27}));
  auto const first_two = slots({10, 11});
  CHECK(pair_chunk({BlockOrdinal{0}, first_two}, range(0, 2), destination).empty());
}

TEST_CASE("R19 speculative overhang does not shift the start", "[session][R19]") {
  auto const nine = slots({0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(BlockTable({4}, 32).place(BlockOrdinal{0}, nine) == table({0, 1, 2, 3, 4, 5, 6, 7}));
  auto const windowed =
      BlockTable({8, 16}, 32).place(first_live({8, 16}, 32), slots({102, 103, 104}));
  CHECK(windowed == table({gone, gone, 102, 103}));
}

TEST_CASE("R20 a chunk costs look-ups in proportion to the chunk", "[session][R20]") {
  constexpr std::uint64_t prompt = 131072, chunks = 128;
  PrefillSlicer slicer({.prompt_tokens = prompt, .groups = {{32}, {64}}});
  std::vector<std::uint64_t> look_ups(2);
  for (std::uint64_t c = 0; c < chunks; ++c) {
    auto const at = c * prompt / chunks;
    auto const chunk = slicer.chunk(tokens(at, at + prompt / chunks));
    for (std::size_t g = 0; g < 2; ++g)
      (void)cut(GroupId{static_cast<std::uint16_t>(g)}, chunk.groups[g], [&](BlockOrdinal) {
        ++look_ups[g];
        return SlotId{1};
      });
  }
  CHECK(look_ups[0] <= 4096 + 128);
  CHECK(look_ups[1] <= 2048 + 128);
}

TEST_CASE("R21 any split of a prompt covers each block of each group exactly once",
          "[session][R21]") {
  std::uint64_t random = 7;
  auto const draw = [&](std::uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  for (std::uint64_t prompt = 1; prompt <= 4096; prompt += 1 + draw(9)) {
    std::vector<BlockShape> const groups{{32}, {64}, {16, 100}, {1 + std::uint32_t(draw(40))}};
    auto const reused = draw(2) == 0 ? draw(prompt) : 0;
    PrefillSlicer slicer({.prompt_tokens = prompt, .groups = groups, .reused_tokens = reused});
    std::vector<std::vector<int>> times;
    for (auto const& g : groups) times.emplace_back(block_count(g, prompt));
    auto const add = [&](ChunkBlocks const& chunk) {
      for (std::size_t g = 0; g < groups.size(); ++g)
        for (auto i = to_integer(chunk.groups[g].first); i < to_integer(chunk.groups[g].end); ++i)
          ++times[g][i];
    };
    if (draw(2) == 0)
      if (auto const early = slicer.early_prefix()) add(*early);
    for (auto at = reused; at < prompt;) {
      auto const end = std::min(prompt, at + 1 + draw(300));
      add(slicer.chunk(tokens(at, end)));
      at = end;
    }
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (std::uint32_t i = 0; i < times[g].size(); ++i)
        if (times[g][i] != (i >= to_integer(first_live(groups[g], prompt)) ? 1 : 0))
          FAIL("prompt " << prompt << " group " << g << " block " << i << ": " << times[g][i]);
  }
}

TEST_CASE("R23 one function cuts the blocks of a chunk and of the final send", "[session][R23]") {
  auto const manager = [](BlockOrdinal i) { return SlotId{100 + to_integer(i)}; };
  PrefillSlicer chunked({.prompt_tokens = 32, .groups = {{4}}});
  auto pieces = cut(GroupId{0}, chunked.chunk(tokens(0, 16)).groups[0], manager).slots;
  auto const rest = cut(GroupId{0}, chunked.chunk(tokens(16, 32)).groups[0], manager).slots;
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  PrefillSlicer whole({.prompt_tokens = 32, .groups = {{4}}});
  CHECK(cut(GroupId{0}, whole.chunk(tokens(0, 32)).groups[0], manager).slots == pieces);
}

TEST_CASE("R25 only a request that still prefills, with set bounds, makes a chunk",
          "[session][R25]") {
  PrefillSlicer slicer({.prompt_tokens = 8, .groups = {{4}}});
  CHECK_THROWS_WITH(slicer.chunk({}), Contains("is empty"));
  CHECK_THROWS_WITH(slicer.chunk(tokens(4, 8)), Contains("does not begin at token 0"));
  CHECK_THROWS_WITH(slicer.chunk(tokens(0, 9)), Contains("past the prompt of 8"));
  (void)slicer.chunk(tokens(0, 8));
  CHECK_THROWS_WITH(slicer.chunk(tokens(8, 8)), Contains("is empty"));
}

TEST_CASE("A receiver that holds a prefix gets the rest, block by block", "[session][C07]") {
  std::vector<SlotId> all(32);
  for (std::uint32_t i = 0; i < 32; ++i) all[i] = SlotId{i};
  auto const source = BlockTable({64}, 2048).place(BlockOrdinal{0}, all);
  CHECK(plain(pair_blocks(source, source, BlockOrdinal{31})) == Pairs{{31, 31}});
  CHECK_THROWS_AS(pair_blocks(source, BlockTable({64}, 2049)), Error);
  CHECK(pair_blocks(source, source, BlockOrdinal{32}).empty());
  CHECK(pair_blocks(source, source).size() == 32);
}
