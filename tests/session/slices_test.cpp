// Which blocks a session sends.
#include <b10/session/session_node.hpp>

#include <string>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;
using Catch::Contains;

TEST_CASE("A receiver that holds a prefix is sent the rest: one that holds all nothing",
          "[session][R15]") {
  TwoRanks x;
  auto tx = x.tx(1, 32);
  auto rx = x.rx(1, 32);
  auto const slots = x.receive(*rx, 32, false, 3);
  tx->send(x.slice(0, 0, 8, true));
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(slots.size() == 5);
  CHECK(x.exact(slots, 3) == 5);
  auto tx2 = x.tx(2, 32);
  auto rx2 = x.rx(2, 32);
  x.receive(*rx2, 32, false, 8);
  auto const before = x.p.agent.writes();
  tx2->send(x.slice(0, 0, 8, true));
  x.settle();
  CHECK(rx2->status() == SessionStatus::fully_transferred);
  CHECK(x.p.agent.writes() == before);
  CHECK(rx2->close() == CloseAnswer::closed);
}

TEST_CASE("R16 an early failure of the prefix fails the request", "[session][R16]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  auto [tx, rx, slots] = x.open(1, 32);
  tx->send(x.slice(0, 0, 3, false));  // the reused prefix
  x.p.agent.fail(0);
  x.settle();
  CHECK(rx->status() == SessionStatus::error);
  CHECK_THROWS_WITH(tx->send(x.slice(1, 3, 5, false)), Contains("has failed: cut"));
}

TEST_CASE("R18 a windowed group sends its live blocks, and never a block that is not computed",
          "[session][R18]") {
  TwoRanks x({small_group(), small_group(8, 10)});
  constexpr std::uint64_t prompt = 32;
  auto tx = x.tx(1, prompt);
  auto rx = x.rx(1, prompt);
  BlockTable full({4}, prompt), window({4, 8}, prompt);
  auto const a = x.d.take(0, 8), b = x.d.take(1, 2);
  full.place(BlockOrdinal{0}, a);
  window.place(BlockOrdinal{6}, b);
  rx->receive({{{GroupId{0}, full, {}}, {GroupId{1}, window, {}}}, {}, {}});
  PrefillSlicer slicer({.prompt_tokens = prompt, .groups = {{4}, {4, 8}}});
  std::vector<std::vector<SlotId>> blocks(2);
  std::uint64_t sentinel = 0;
  for (std::uint64_t at = 0; at < prompt; at += 8) {
    for (std::size_t g = 0; g < 2; ++g)
      while (blocks[g].size() * 4 < at + 8) {
        auto const s = x.p.take(g);
        x.p.fill(s, 100 * g + blocks[g].size(), g);
        blocks[g].push_back(s);
      }
    auto const chunk = slicer.chunk({TokenPos{at}, TokenPos{at + 8}});
    Rank::Slice s;
    s.id = chunk.id;
    s.is_last = chunk.is_last;
    for (std::uint16_t g = 0; g < 2; ++g)
      s.groups.push_back(cut(GroupId{g}, chunk.groups[g], [&](BlockOrdinal i) {
        sentinel += to_integer(i) >= blocks[g].size();
        return blocks[g].at(to_integer(i));
      }));
    tx->send(std::move(s));
  }
  x.settle();
  CHECK(sentinel == 0);
  CHECK(rx->status() == SessionStatus::fully_transferred);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::memcmp(x.p.slot(blocks[0][i]).data(), x.d.slot(a[i]).data(), 256) == 0);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(std::memcmp(x.p.slot(blocks[1][6 + i], 1).data(), x.d.slot(b[i], 1).data(), 256) == 0);
}

TEST_CASE("R21 a state slot moves exactly once, with the last slice", "[session][R21]") {
  TwoRanks x({small_group(), state_group()});
  auto tx = x.tx(1, 16);
  auto rx = x.rx(1, 16);
  BlockTable table({4}, 16);
  auto const a = x.d.take(0, 4);
  table.place(BlockOrdinal{0}, a);
  auto const to = x.d.take(1), from = x.p.take(1);
  x.p.fill(from, 5, 1);
  rx->receive({{{GroupId{0}, table, {}}}, {{GroupId{1}, to}}, {}});
  x.settle();
  auto early = x.slice(0, 0, 2, false);
  early.state = {{GroupId{1}, from}};
  CHECK_THROWS_WITH(tx->send(early), Contains("has state and is not the last one"));
  tx->send(x.slice(0, 0, 2, false));
  auto last = x.slice(1, 2, 4, true);
  last.state = {{GroupId{1}, from}};
  tx->send(last);
  x.settle();
  CHECK(rx->status() == SessionStatus::fully_transferred);
  CHECK(std::memcmp(x.p.slot(from, 1).data(), x.d.slot(to, 1).data(), 160) == 0);
}

TEST_CASE("Slices out of order or out of range are refused, and nothing is sent",
          "[session][R12]") {
  TwoRanks x;
  auto tx = x.tx(1, 32);
  CHECK_THROWS_WITH(tx->send(x.slice(1, 0, 2, false)), Contains("where slice 0 is due"));
  CHECK_THROWS_WITH(tx->send(x.slice(0, 6, 9, false)), Contains("[6, 9)") && Contains("[0, 8)"));
  tx->send(x.slice(0, 0, 4, false));
  CHECK_THROWS_WITH(tx->send(x.slice(1, 3, 5, false)), Contains("[4, 8) are still to be sent"));
  tx->send(x.slice(1, 4, 4, false));  // nothing of this group: no error
  CHECK_THROWS_WITH(tx->send(x.slice(0, 4, 6, false)), Contains("where slice 2 is due"));
}

TEST_CASE("R24 the last chunk once more is a no-op, a resend of another an error",
          "[session][R24]") {
  TwoRanks x;
  auto [tx, rx, slots] = x.open(1, 16);
  tx->send(x.slice(0, 0, 2, false));
  CHECK_THROWS_AS(tx->send(x.slice(0, 0, 4, true)), Error);  // no full resend while chunks are out
  tx->send(x.slice(1, 2, 4, true));
  x.settle();
  auto const writes = x.p.agent.writes();
  tx->send(x.slice(1, 2, 4, true));
  x.settle();
  CHECK(x.p.agent.writes() == writes);
  CHECK_THROWS_WITH(tx->send(x.slice(2, 2, 4, true)), Contains("after the last one"));
}
