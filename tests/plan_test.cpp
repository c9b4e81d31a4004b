#include <b10/core/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/span_list.hpp>
#include "support/catch.hpp"

using namespace b10;
using Catch::Contains;
using core::Chunk;

namespace {

constexpr std::uint64_t spans_max = 1u << 21;
constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t Mi = 1u << 20;

LocalSpan local(std::uint64_t address, std::uint64_t bytes, int device = -1) {
  return {reinterpret_cast<std::byte*>(address), bytes, Device{device}};
}
RemoteSpan remote(std::uint64_t address, std::uint64_t bytes, int device = -1) {
  return {address, bytes, Device{device}};
}
std::uint64_t address(LocalSpan const& s) { return reinterpret_cast<std::uintptr_t>(s.address); }

struct Lists {
  std::vector<LocalSpan> sources{};
  std::vector<RemoteSpan> destinations{};
  void add(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, int from_device = -1,
           int to_device = -1) {
    sources.push_back(local(from, bytes, from_device));
    destinations.push_back(remote(to, bytes, to_device));
  }
  [[nodiscard]] core::Plan plan() const {
    return core::make_plan(sources, destinations, spans_max);
  }
};

std::string why(Lists const& lists, std::uint64_t most = spans_max) {
  try {
    static_cast<void>(core::make_plan(lists.sources, lists.destinations, most));
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::invalid_request);
    return e.what();
  }
  return "accepted";
}

std::vector<Chunk> cut_sizes(std::vector<std::uint64_t> const& sizes, std::uint64_t slice) {
  std::vector<RemoteSpan> spans;
  for (auto const bytes : sizes) spans.push_back(remote(4096, bytes));
  return core::cut(std::span<RemoteSpan const>{spans}, slice);
}

/// The destination byte of every source byte, in pieces of `unit` bytes.
std::map<std::pair<int, std::uint64_t>, std::pair<int, std::uint64_t>> moves(
    std::span<LocalSpan const> from, std::span<RemoteSpan const> to, std::uint64_t unit) {
  std::map<std::pair<int, std::uint64_t>, std::pair<int, std::uint64_t>> all;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::uint64_t at = 0; at < from[i].bytes; at += unit) {
      all[{to_integer(from[i].device), address(from[i]) + at}] = {to_integer(to[i].device),
                                                                  to[i].address + at};
    }
  }
  return all;
}

}  // namespace

TEST_CASE("cut flushes before the span that would exceed the slice", "[plan]") {
  CHECK(cut_sizes(std::vector<std::uint64_t>(513, Mi), 512 * Mi) ==
        std::vector<Chunk>{{0, 512, 0, 512 * Mi}, {512, 1, 0, Mi}});
  CHECK(cut_sizes({6, 6}, 10) == std::vector<Chunk>{{0, 1, 0, 6}, {1, 1, 0, 6}});
}

TEST_CASE("cut flushes an exact fit at once, so an empty span after it stands alone", "[plan]") {
  CHECK(cut_sizes({10, 0}, 10) == std::vector<Chunk>{{0, 1, 0, 10}, {1, 1, 0, 0}});
  CHECK(cut_sizes({5, 0, 5, 2}, 10) == std::vector<Chunk>{{0, 3, 0, 10}, {3, 1, 0, 2}});
  CHECK(cut_sizes({10, 0, 4}, 10) == std::vector<Chunk>{{0, 1, 0, 10}, {1, 2, 0, 4}});
}

TEST_CASE("cut splits a span longer than a slice over chunks of its own", "[plan]") {
  CHECK(cut_sizes({0, 20, 5}, 10) ==
        std::vector<Chunk>{{0, 2, 0, 10}, {1, 1, 10, 10}, {2, 1, 0, 5}});
  CHECK(
      cut_sizes({3, 25, 4, 2}, 10) ==
      std::vector<Chunk>{{0, 1, 0, 3}, {1, 1, 0, 10}, {1, 1, 10, 10}, {1, 2, 20, 9}, {3, 1, 0, 2}});
}

TEST_CASE("cut of nothing is no chunk", "[plan]") { CHECK(cut_sizes({}, 10).empty()); }

TEST_CASE("cut refuses slices of no bytes", "[plan]") {
  CHECK_THROWS_WITH(cut_sizes({5}, 0), Contains("slic") && Contains("0 B"));
}

TEST_CASE("cut refuses more than 2^16 chunks and names the knob", "[plan]") {
  CHECK(cut_sizes({core::chunks_max}, 1).size() == core::chunks_max);
  CHECK_THROWS_WITH(cut_sizes({core::chunks_max + 1}, 1),
                    Contains("65536 chunks") && Contains("slicing policy"));
  CHECK_THROWS_WITH(cut_sizes({largest, largest}, 1), Contains("slicing policy"));
}

TEST_CASE("Chunks name every byte exactly once and in order", "[plan]") {
  std::mt19937_64 random(GENERATE(range(1u, 9u)));
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> sizes(random() % 40);
    for (auto& bytes : sizes) bytes = random() % 4 == 0 ? random() % 100 : random() % 12;
    auto const slice = 1 + random() % 30;
    std::size_t span = 0;
    std::uint64_t skip = 0;
    for (Chunk const& c : cut_sizes(sizes, slice)) {
      REQUIRE(c.bytes <= slice);
      while (span < c.first) {
        REQUIRE(skip == sizes[span]);
        ++span;
        skip = 0;
      }
      REQUIRE(c.skip == skip);
      REQUIRE(c.first == span);
      std::uint64_t left = c.bytes;
      for (std::uint32_t k = 0; k < c.count; ++k) {
        auto const part = std::min(left, sizes[span] - skip);
        left -= part;
        skip += part;
        if (k + 1 < c.count) {
          REQUIRE(skip == sizes[span]);
          ++span;
          skip = 0;
        }
      }
      REQUIRE(left == 0);
    }
    for (; span < sizes.size(); ++span, skip = 0) REQUIRE(skip == sizes[span]);
  }
}

TEST_CASE("Both sides cut equal sizes alike", "[plan]") {
  std::vector<LocalSpan> const here{local(64, 7), local(512, 30), local(4096, 1)};
  std::vector<RemoteSpan> const there{remote(9, 7), remote(99, 30), remote(999, 1)};
  CHECK(core::cut(std::span<LocalSpan const>{here}, 8) ==
        core::cut(std::span<RemoteSpan const>{there}, 8));
}

TEST_CASE("A plan of nothing, or of empty pairs only, is empty", "[plan]") {
  Lists lists;
  CHECK(lists.plan().sources.empty());
  lists.add(0, 0, 0);
  lists.add(5, 5, 0);
  CHECK(lists.plan().sources.empty());
  CHECK(lists.plan().bytes == 0);
  CHECK_FALSE(lists.plan().ordered);
}

TEST_CASE("Pairs are sorted by device and source address", "[plan]") {
  Lists lists;
  lists.add(3000, 100, 10, 1);
  lists.add(5000, 200, 10, 0);
  lists.add(1000, 300, 10, 1);
  lists.add(9000, 400, 10);
  auto const plan = lists.plan();
  CHECK(plan.sources == std::vector<LocalSpan>{local(9000, 10), local(5000, 10, 0),
                                               local(1000, 10, 1), local(3000, 10, 1)});
  CHECK(plan.destinations == std::vector<RemoteSpan>{remote(400, 10), remote(200, 10),
                                                     remote(300, 10), remote(100, 10)});
  CHECK(plan.bytes == 40);
  CHECK_FALSE(plan.ordered);
}

TEST_CASE("Pairs contiguous on both sides are merged", "[plan]") {
  Lists lists;
  lists.add(1020, 520, 20);
  lists.add(1000, 500, 20);
  lists.add(1040, 540, 5);
  auto const plan = lists.plan();
  CHECK(plan.sources == std::vector<LocalSpan>{local(1000, 45)});
  CHECK(plan.destinations == std::vector<RemoteSpan>{remote(500, 45)});
  CHECK(plan.bytes == 45);
}

TEST_CASE("Pairs contiguous on one side, or across devices, are not merged", "[plan]") {
  Lists gap;
  gap.add(1000, 500, 20);
  gap.add(1020, 540, 20);
  CHECK(gap.plan().sources.size() == 2);
  Lists other;
  other.add(1000, 500, 20, 0, 0);
  other.add(1020, 520, 20, 0, 1);
  CHECK(other.plan().sources.size() == 2);
  Lists source;
  source.add(1000, 500, 20, 0, 0);
  source.add(1020, 520, 20, 1, 0);
  CHECK(source.plan().sources.size() == 2);
}

TEST_CASE("Pairs of no bytes are dropped, wherever they point", "[plan]") {
  Lists lists;
  lists.add(2000, 600, 10);
  lists.add(0, 0, 0);
  lists.add(2005, 605, 0);
  lists.add(largest, largest, 0);
  lists.add(1000, 500, 10);
  auto const plan = lists.plan();
  CHECK(plan.sources == std::vector<LocalSpan>{local(1000, 10), local(2000, 10)});
  CHECK_FALSE(plan.ordered);
}

TEST_CASE("A side that overlaps itself keeps the caller's order, one chunk in flight", "[plan]") {
  auto const device = GENERATE(-1, 3);
  Lists sources;
  sources.add(1000, 500, 20, device);
  sources.add(100, 900, 5, device);
  sources.add(1019, 700, 20, device);
  auto plan = sources.plan();
  CHECK(plan.ordered);
  CHECK(plan.sources == sources.sources);
  CHECK(plan.destinations == sources.destinations);

  Lists destinations;
  destinations.add(1000, 700, 20, -1, device);
  destinations.add(100, 1, 0, -1, device);
  destinations.add(2000, 681, 20, -1, device);
  plan = destinations.plan();
  CHECK(plan.ordered);
  CHECK(plan.sources == std::vector<LocalSpan>{local(1000, 20), local(2000, 20)});
}

TEST_CASE("Equal addresses on different devices do not overlap", "[plan]") {
  Lists lists;
  lists.add(1000, 500, 20, 1, 0);
  lists.add(1000, 500, 20, 0, 1);
  auto const plan = lists.plan();
  CHECK_FALSE(plan.ordered);
  CHECK(plan.sources.front().device == Device{0});
}

TEST_CASE("Touching spans do not overlap", "[plan]") {
  Lists lists;
  lists.add(1010, 500, 10);
  lists.add(1000, 510, 10);
  CHECK_FALSE(lists.plan().ordered);
}

TEST_CASE("A long span that hides later ones is an overlap", "[plan]") {
  Lists lists;
  lists.add(1000, 100'000, 1000);
  lists.add(1100, 200'000, 10);
  lists.add(1200, 300'000, 10);
  CHECK(lists.plan().ordered);
}

TEST_CASE("Plans move the same bytes as the lists, whatever the layout", "[plan]") {
  std::mt19937_64 random(GENERATE(range(1u, 7u)));
  for (int round = 0; round < 60; ++round) {
    auto const unit = std::uint64_t{1} << random() % 13;
    auto const count = 1 + random() % (round % 10 == 0 ? 1500 : 40);
    auto const room = count * (1 + random() % 5);
    auto const spread = random() % 5 == 0 ? std::uint64_t{1} << 33 : 1;
    bool const may_overlap = random() % 4 == 0;
    int const devices = random() % 3 == 0 ? 3 : 1;
    std::vector<std::uint64_t> from(room), to(room);
    for (std::size_t i = 0; i < room; ++i) from[i] = to[i] = 1 + i * spread;
    std::shuffle(from.begin(), from.end(), random);
    std::shuffle(to.begin(), to.end(), random);
    if (random() % 3 == 0) to = from;
    Lists lists;
    for (std::size_t i = 0; i < count; ++i) {
      auto const k = may_overlap ? random() % count : i;
      lists.add(4096 + from[k] * unit, 8192 + to[k] * unit, unit,
                static_cast<int>(random() % static_cast<unsigned>(devices)) - 1,
                static_cast<int>(random() % static_cast<unsigned>(devices)) - 1);
    }
    auto const plan = lists.plan();
    REQUIRE(plan.bytes == count * unit);
    auto const distinct = [unit](auto const& spans) {
      std::map<std::pair<int, std::uint64_t>, int> seen;
      for (auto const& s : spans) {
        ++seen[{to_integer(s.device), core::detail::address_of(s) / unit}];
      }
      return seen.size() == spans.size();
    };
    REQUIRE(plan.ordered == !(distinct(lists.sources) && distinct(lists.destinations)));
    REQUIRE(moves(plan.sources, plan.destinations, unit) ==
            moves(lists.sources, lists.destinations, unit));
    if (plan.ordered) {
      REQUIRE(plan.sources == lists.sources);
      continue;
    }
    for (std::size_t i = 1; i < plan.sources.size(); ++i) {
      LocalSpan const& a = plan.sources[i - 1];
      LocalSpan const& b = plan.sources[i];
      REQUIRE((a.device < b.device || (a.device == b.device && address(a) < address(b))));
    }
  }
}

namespace {

/// What a plan must be, the slow and obvious way; sizes and devices of a pair are alike.
core::Plan obvious_plan(Lists const& lists) {
  std::vector<std::size_t> order(lists.sources.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return address(lists.sources[a]) < address(lists.sources[b]);
  });
  core::Plan plan;
  for (auto const i : order) {
    auto const& s = lists.sources[i];
    auto const& d = lists.destinations[i];
    plan.bytes += s.bytes;
    if (!plan.sources.empty() &&
        address(plan.sources.back()) + plan.sources.back().bytes == address(s) &&
        plan.destinations.back().address + plan.destinations.back().bytes == d.address) {
      plan.sources.back().bytes += s.bytes;
      plan.destinations.back().bytes += s.bytes;
    } else {
      plan.sources.push_back(s);
      plan.destinations.push_back(d);
    }
  }
  return plan;
}

std::vector<std::uint64_t> slots(std::size_t count, std::mt19937_64& random) {
  auto const pool = count * (1 + random() % 4);
  std::vector<std::uint64_t> all(pool);
  for (std::size_t i = 0; i < pool; ++i) all[i] = i;
  if (random() % 4 != 0) {  // runs of slots, as an allocator hands them out
    auto const run = 1 + random() % 9;
    for (std::size_t i = 0; i + run < pool; i += run) {
      auto const k = random() % (pool / run) * run;
      if (k == i || k + run > pool) continue;
      std::swap_ranges(all.begin() + static_cast<long>(i), all.begin() + static_cast<long>(i + run),
                       all.begin() + static_cast<long>(k));
    }
  }
  all.resize(count);
  return all;
}

/// Paged KV of one or more groups of layers, listed by layer or by block.
Lists paged(std::mt19937_64& random) {
  Lists lists;
  std::uint64_t from_base = 1 << 20;
  std::uint64_t to_base = 1ull << 40;
  auto const to_step = random() % 2 == 0 ? 1ull << 24 : 0 - (1ull << 24);
  for (auto groups = 1 + random() % 3; groups > 0; --groups) {
    auto const regions = 1 + random() % 20;
    auto const blocks = 1 + random() % 60;
    auto const bytes = 64 * (1 + random() % 9);
    auto const from = slots(blocks, random);
    auto const to = slots(blocks, random);
    // Layers apart from each other, or blocks (all layers of a block side by side).
    auto const place = [&](std::uint64_t base, std::uint64_t slot, std::uint64_t region, bool apart,
                           std::uint64_t gap) {
      return base + (apart ? region * (4 * blocks * bytes + gap) + slot * bytes
                           : slot * (regions * bytes + gap) + region * bytes);
    };
    bool const from_apart = random() % 2 == 0;
    bool const to_apart = random() % 2 == 0;
    auto const gap = random() % 2 * 4096;
    bool const by_layer = random() % 2 == 0;
    for (std::size_t i = 0; i < regions * blocks; ++i) {
      auto const region = by_layer ? i / blocks : i % regions;
      auto const block = by_layer ? i % blocks : i / regions;
      lists.add(place(from_base, from[block], region, from_apart, gap),
                place(to_base, to[block], region, to_apart, gap), bytes, 0, 1);
    }
    from_base += 1 << 24;
    to_base += to_step;
  }
  return lists;
}

bool is_made_of_grids(Lists const& lists) {
  return core::detail::plan_grids(lists.sources, lists.destinations).has_value();
}

}  // namespace

TEST_CASE("Paged layouts are planned as the obvious way plans them", "[plan]") {
  std::mt19937_64 random(GENERATE(range(1u, 11u)));
  int grids = 0;
  for (int round = 0; round < 40; ++round) {
    auto const lists = paged(random);
    grids += is_made_of_grids(lists) ? 1 : 0;
    auto const plan = lists.plan();
    auto const expected = obvious_plan(lists);
    REQUIRE_FALSE(plan.ordered);
    REQUIRE(plan.bytes == expected.bytes);
    REQUIRE(plan.sources == expected.sources);
    REQUIRE(plan.destinations == expected.destinations);
  }
  CHECK(grids > 10);
}

TEST_CASE("One changed pair of a paged layout is seen", "[plan]") {
  std::mt19937_64 random(GENERATE(range(1u, 11u)));
  for (int round = 0; round < 40; ++round) {
    auto lists = paged(random);
    auto const i = random() % lists.sources.size();
    auto const k = random() % lists.sources.size();
    switch (random() % 6) {
      case 0:
        lists.destinations[i].bytes += 1;
        REQUIRE_THAT(why(lists), Contains("pair " + std::to_string(i)));
        break;
      case 1:
        lists.sources[i].device = Device{-2};
        REQUIRE_THAT(why(lists), Contains("source " + std::to_string(i)));
        break;
      case 2:
        lists.destinations[i].address = 0;
        REQUIRE_THAT(why(lists), Contains("destination " + std::to_string(i)));
        break;
      case 3:
        lists.destinations[i].address = largest - 1;
        REQUIRE_THAT(why(lists), Contains("destination " + std::to_string(i)));
        break;
      case 4:
        lists.destinations[i].address = lists.destinations[k].address + (i == k ? 0 : 1);
        REQUIRE(lists.plan().ordered == (i != k));
        break;
      default:
        lists.sources[i].address = lists.sources[k].address + (i == k ? 0 : 1);
        REQUIRE(lists.plan().ordered == (i != k));
        break;
    }
  }
}

TEST_CASE("Whole layers that overlap are an overlap", "[plan]") {
  Lists lists;
  for (std::uint64_t i = 0; i < 200; ++i) {
    auto const layer = i / 20;
    auto const block = i % 20;
    lists.add(4096 + layer * 65'536 + block * block * 64, 4096 + layer * 64 + block * 4096, 64);
  }
  CHECK(is_made_of_grids(lists));
  CHECK_FALSE(lists.plan().ordered);
  for (std::uint64_t i = 20; i < 200; ++i) lists.destinations[i].address -= i / 20;
  CHECK(lists.plan().ordered);
}

TEST_CASE("Grids at the ends of the address space are refused where they wrap", "[plan][C66]") {
  auto const grid = [](std::uint64_t base) {
    Lists lists;
    for (std::uint64_t i = 0; i < 200; ++i) {
      lists.add(base + i / 20 * 65'536 + i % 20 * (i % 20) * 64, 4096 + i * 64, 64);
    }
    return lists;
  };
  constexpr std::uint64_t used = 9 * 65'536 + 19 * 19 * 64 + 64;
  CHECK(why(grid(1)) == "accepted");
  CHECK_THAT(why(grid(0)), Contains("source 0") && Contains("null"));
  CHECK(why(grid(largest - used)) == "accepted");
  CHECK_THAT(why(grid(largest - used + 1)), Contains("source 199") && Contains("wrap"));
  CHECK_THAT(why(grid(largest - 65'536)), Contains("wrap") || Contains("null"));
}

TEST_CASE("Lists of different lengths are refused with both counts", "[plan]") {
  Lists lists;
  lists.add(1000, 500, 20);
  lists.sources.push_back(local(64, 8));
  CHECK_THAT(why(lists), Contains("2 sources") && Contains("1 destination"));
}

TEST_CASE("A pair of different sizes is refused with its index and both sizes", "[plan]") {
  Lists lists;
  lists.add(1000, 500, 20);
  lists.add(2000, 900, 20);
  lists.destinations[1].bytes = 21;
  CHECK_THAT(why(lists), Contains("pair 1") && Contains("20 B") && Contains("21 B"));
}

TEST_CASE("Unknown memory kinds are refused", "[plan]") {
  Lists lists;
  lists.add(1000, 500, 20);
  lists.add(3000, 700, 20, -2);
  CHECK_THAT(why(lists), Contains("source 1") && Contains("-2"));
  Lists alike;
  alike.add(3000, 700, 20, 0, -7);
  CHECK_THAT(why(alike), Contains("destination 0") && Contains("-7"));
}

TEST_CASE("A null address is refused unless the span is empty", "[plan]") {
  Lists lists;
  lists.add(1000, 500, 20);
  lists.add(0, 900, 20);
  CHECK_THAT(why(lists), Contains("source 1") && Contains("null"));
  Lists other;
  other.add(1000, 0, 20);
  CHECK_THAT(why(other), Contains("destination 0") && Contains("null"));
}

TEST_CASE("More pairs than Config::spans_max are refused", "[plan]") {
  Lists lists;
  for (std::uint64_t i = 1; i <= 5; ++i) lists.add(i * 100, i * 200, 10);
  CHECK(why(lists, 5) == "accepted");
  CHECK_THAT(why(lists, 4), Contains("5 pairs") && Contains("4") && Contains("Config::spans_max"));
}

TEST_CASE("C66 spans beyond 2^31, 2^32 and 2^40 are exact", "[plan][C66]") {
  auto const at = GENERATE((1ull << 31) - 256, 1ull << 31, (1ull << 32) - 1, 1ull << 32, 1ull << 40,
                           1ull << 62);
  auto const bytes = GENERATE(1ull << 31, (1ull << 32) + 256, 1ull << 40);
  Lists lists;
  lists.add(at + 3 * bytes, at, bytes);
  lists.add(at, at + 2 * bytes, bytes);
  auto const plan = lists.plan();
  CHECK(plan.sources == std::vector<LocalSpan>{local(at, bytes), local(at + 3 * bytes, bytes)});
  CHECK(plan.destinations[1].address == at);
  CHECK(plan.bytes == 2 * bytes);
}

TEST_CASE("C66 the stride that overflowed 32 bits at block 2066 is exact", "[plan][C66]") {
  constexpr std::uint64_t stride = 1'039'680;
  constexpr std::uint64_t base = 0x7f00'0000'0000;
  Lists lists;
  for (std::uint64_t block = 5000; block > 0; block -= 2) {
    lists.add(base + block * stride, 2 * base + block * stride, stride);
  }
  auto const plan = lists.plan();
  REQUIRE(plan.sources.size() == 2500);
  for (std::uint64_t i = 0; i < 2500; ++i) {
    REQUIRE(address(plan.sources[i]) == base + (2 + 2 * i) * stride);
    REQUIRE(plan.destinations[i].address == 2 * base + (2 + 2 * i) * stride);
  }
}

TEST_CASE("C66 a span that wraps around 2^64 is refused", "[plan][C66]") {
  Lists lists;
  lists.add(largest - 100, 500, 100);
  CHECK(why(lists) == "accepted");
  lists.add(largest - 2000, largest - 8, 9);
  CHECK_THAT(why(lists), Contains("destination 1") && Contains("wrap around 2^64"));
  Lists source;
  source.add(largest, 500, 1);
  CHECK_THAT(why(source), Contains("source 0") && Contains("wrap around 2^64"));
}

TEST_CASE("C66 a sum of sizes that crosses 2^64 is refused", "[plan][C66]") {
  Lists lists;
  lists.add(64, 64, 1ull << 63);
  CHECK(why(lists) == "accepted");
  lists.add(128, 128, 1ull << 63);
  CHECK_THAT(why(lists), Contains("pair 1") && Contains("2^64"));
}

TEST_CASE("A span list keeps what it holds when it grows, moves or changes its kind", "[plan]") {
  core::SpanList<RemoteSpan> list;
  for (std::uint64_t i = 1; i <= 1000; ++i) list.push_back(remote(i, 2 * i, 3));
  list.push_back(list.front());
  auto const* const memory = static_cast<void const*>(list.data());
  auto moved = std::move(list);
  CHECK(list.empty());
  CHECK(list.capacity() == 0);
  auto const locals = std::move(moved).turn_into<LocalSpan>(
      [](RemoteSpan const& s) { return local(s.address, s.bytes, to_integer(s.device)); });
  CHECK(moved.empty());
  CHECK(moved.data() == nullptr);
  CHECK(static_cast<void const*>(locals.data()) == memory);
  REQUIRE(locals.size() == 1001);
  for (std::uint64_t i = 1; i <= 1000; ++i) REQUIRE(locals[i - 1] == local(i, 2 * i, 3));
  CHECK(locals.back() == local(1, 2, 3));
}
