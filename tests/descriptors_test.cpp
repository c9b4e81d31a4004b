#include <b10/core/descriptors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using core::DescriptorPacker;
using core::DescriptorUnpacker;

namespace {

using Spans = std::vector<RemoteSpan>;
using Segments = std::vector<std::vector<std::byte>>;

constexpr std::uint64_t pool = 0x7f12'3000'0000;
constexpr std::size_t frame = 3900;

std::uint64_t sum(Spans const& spans) {
  std::uint64_t bytes = 0;
  for (auto const& s : spans) bytes += s.bytes;
  return bytes;
}

template <class Room>
Segments pack(Spans const& spans, Room room) {
  Segments segments;
  DescriptorPacker packer(spans);
  while (!packer.done()) {
    std::vector<std::byte> segment(room());
    auto const used = packer.pack(segment);
    REQUIRE(used > 0);
    REQUIRE(used <= segment.size());
    segment.resize(used);
    segments.push_back(segment);
  }
  return segments;
}
Segments pack(Spans const& spans) {
  return pack(spans, [] { return frame; });
}

std::size_t size_of(Segments const& segments) {
  std::size_t bytes = 0;
  for (auto const& s : segments) bytes += s.size();
  return bytes;
}

Spans unpack(Segments const& segments, Spans const& expected) {
  DescriptorUnpacker unpacker(expected.size(), sum(expected));
  for (auto const& segment : segments) {
    REQUIRE_FALSE(unpacker.complete());
    REQUIRE(unpacker.feed(segment) == "");
  }
  REQUIRE(unpacker.complete());
  return {unpacker.spans().begin(), unpacker.spans().end()};
}

std::vector<std::uint64_t> random_slots(std::size_t count, std::mt19937_64& random) {
  std::vector<std::uint64_t> slots(4 * count);
  std::iota(slots.begin(), slots.end(), std::uint64_t{0});
  std::shuffle(slots.begin(), slots.end(), random);
  slots.resize(count);
  return slots;
}

struct Layout {
  std::size_t regions;
  std::size_t blocks;
  std::uint64_t bytes;
  bool block_major;
  bool even;  ///< regions lie at equal distances
};

Spans make(Layout const& l, std::mt19937_64& random) {
  auto const slots = random_slots(l.blocks, random);
  std::vector<std::uint64_t> bases;
  std::uint64_t at = pool;
  for (std::size_t r = 0; r < l.regions; ++r) {
    bases.push_back(at);
    at += 4 * l.blocks * l.bytes + (l.even ? 0 : random() % 64 * 4096);
  }
  Spans spans;
  auto const outer = l.block_major ? l.blocks : l.regions;
  auto const inner = l.block_major ? l.regions : l.blocks;
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      spans.push_back({bases[l.block_major ? k : i] + slots[l.block_major ? i : k] * l.bytes,
                       l.bytes, Device{0}});
    }
  }
  return spans;
}

/// Spans of every kind: strides, repeats, jumps over the whole address space, changing devices.
Spans anything(std::mt19937_64& random, std::size_t count) {
  Spans spans;
  while (spans.size() < count) {
    auto const bytes = random() % 3 == 0 ? 1 + random() % 100'000 : std::uint64_t{4096};
    auto const device = Device{random() % 5 == 0 ? static_cast<int>(random() % 9) - 1 : 0};
    auto address = random() % 4 == 0 ? random() >> random() % 40 : pool + random() % 4096 * 4096;
    auto const stride = random() % 2 == 0 ? random() % 3 * 4096 : random() % 70'000;
    for (auto run = random() % 6; run > 0; --run, address += stride) {
      if (address - 1 < ~bytes) spans.push_back({address, bytes, device});
    }
    if (random() % 4 == 0 && !spans.empty()) {
      auto const back = 1 + random() % std::min<std::size_t>(spans.size(), 20);
      auto const moved = random() % 4096 * 512;
      for (auto n = random() % 40; n > 0; --n) {
        auto s = spans[spans.size() - back];
        s.address += moved;
        if (s.address - 1 < ~s.bytes) spans.push_back(s);
      }
    }
  }
  spans.resize(count);
  return spans;
}

/// Feeds what a hostile peer may have changed; nothing that comes out may break a promise.
void check_promises(Segments const& segments, std::uint64_t expected, std::uint64_t bytes) {
  DescriptorUnpacker unpacker(expected, bytes);
  for (auto const& segment : segments) static_cast<void>(unpacker.feed(segment));
  auto const& spans = unpacker.spans();
  REQUIRE(spans.capacity() <= expected);
  std::uint64_t total = 0;
  std::size_t wrong = 0;
  for (auto const& s : spans) {
    wrong += s.bytes == 0 || s.address == 0 || s.address > ~s.bytes || s.device < Device::host;
    total += s.bytes;
  }
  REQUIRE(wrong == 0);
  REQUIRE(spans.size() <= expected);
  REQUIRE(total <= bytes);
  if (unpacker.complete()) {
    REQUIRE(spans.size() == expected);
    REQUIRE(total == bytes);
  }
}

std::vector<std::byte> bytes(std::vector<int> const& values) {
  std::vector<std::byte> out;
  for (int const v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

std::string feed(std::uint64_t spans, std::uint64_t sum_expected, std::vector<int> const& values) {
  DescriptorUnpacker unpacker(spans, sum_expected);
  return std::string{unpacker.feed(bytes(values))};
}

}  // namespace

TEST_CASE("Regular block layouts cost less than a byte a span", "[descriptors][P6]") {
  std::mt19937_64 random(7);
  auto const block_major = GENERATE(false, true);
  auto const even = GENERATE(false, true);
  auto const shape =
      GENERATE(Layout{32, 256, 131'072, false, false}, Layout{72, 130, 4096, false, false},
               Layout{61, 1024, 36'864, false, false}, Layout{64, 2048, 256, false, false},
               Layout{20, 256, 1'039'680, false, false});
  auto const spans = make({shape.regions, shape.blocks, shape.bytes, block_major, even}, random);
  auto const segments = pack(spans);
  CHECK(size_of(segments) <= spans.size());
  CHECK(unpack(segments, spans) == spans);
}

TEST_CASE("A constant stride costs a few bytes for thousands of spans", "[descriptors]") {
  Spans spans;
  for (std::uint64_t i = 0; i < 50'000; ++i) spans.push_back({pool + i * 1'039'680, 65'536});
  auto const segments = pack(spans);
  CHECK(size_of(segments) < 64);
  CHECK(unpack(segments, spans) == spans);
}

TEST_CASE("The first segment leaves before the whole list is packed", "[descriptors][P6]") {
  Spans spans;
  for (std::uint64_t i = 0; i < 300'000; ++i) spans.push_back({pool + i * 4096, 2048});
  DescriptorPacker packer(spans);
  std::vector<std::byte> first(frame);
  first.resize(packer.pack(first));
  CHECK_FALSE(packer.done());
  DescriptorUnpacker unpacker(spans.size(), sum(spans));
  CHECK(unpacker.feed(first) == "");
  CHECK(unpacker.spans().size() == DescriptorPacker::spans_per_segment_max);
}

TEST_CASE("A segment holds no more spans than it may, and the rest follows", "[descriptors][P6]") {
  Spans spans;
  for (std::uint64_t i = 0; i < 3000; ++i) spans.push_back({pool + i * 4096, 2048});
  DescriptorPacker packer(spans);
  std::vector<std::byte> segment(frame);
  DescriptorUnpacker unpacker(spans.size(), sum(spans));
  for (std::size_t const most : {1u, 2u, 513u, 3000u}) {
    auto const before = unpacker.spans().size();
    segment.resize(packer.pack(std::span(segment), most));
    REQUIRE(unpacker.feed(segment) == "");
    CHECK(unpacker.spans().size() == std::min(before + most, spans.size()));
    segment.resize(frame);
  }
  CHECK(packer.done());
  CHECK(unpacker.spans() == spans);
}

TEST_CASE("Whatever was packed comes out, whatever the sizes of the segments", "[descriptors]") {
  std::mt19937_64 random(GENERATE(range(1u, 41u)));
  auto const spans = anything(random, 1 + random() % 3000);
  auto const segments = pack(spans, [&] {
    return std::size_t{DescriptorPacker::segment_bytes_min} + random() % (random() % 2 ? 20 : 900);
  });
  CHECK(unpack(segments, spans) == spans);
}

TEST_CASE("C66 addresses at the ends of the address space come out exact", "[descriptors][C66]") {
  constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
  Spans const spans{{1, 1},
                    {largest - 1, 1},
                    {2, 1},
                    {1ull << 63, 1},
                    {(1ull << 63) - 1, 1},
                    {1, largest - (1ull << 42)},
                    {1ull << 31, 1},
                    {1ull << 32, 1ull << 32},
                    {1ull << 40, (1ull << 32) + 256},
                    {1, 1, Device{std::numeric_limits<std::int32_t>::max()}}};
  auto const segments = pack(spans, [] { return std::size_t{64}; });
  CHECK(unpack(segments, spans) == spans);
}

TEST_CASE("A match goes on across segments", "[descriptors]") {
  std::mt19937_64 random(3);
  auto const spans = make({1000, 100, 4096, false, true}, random);
  auto const segments = pack(spans);
  REQUIRE(spans.size() > DescriptorPacker::spans_per_segment_max);
  CHECK(segments.size() == 2);
  CHECK(segments.back().size() < 12);
  CHECK(unpack(segments, spans) == spans);
}

TEST_CASE("Nothing is packed into a buffer that is too small", "[descriptors]") {
  Spans const spans{{pool, 1}};
  std::byte small[DescriptorPacker::segment_bytes_min - 1];
  DescriptorPacker packer(spans);
  CHECK(packer.pack(small) == 0);
  CHECK_FALSE(packer.done());
}

TEST_CASE("An empty list needs no segment and takes none", "[descriptors]") {
  CHECK(DescriptorPacker(Spans{}).done());
  DescriptorUnpacker unpacker(0, 0);
  CHECK(unpacker.complete());
  CHECK(unpacker.feed(bytes({0, 0, 13, 1, 1})) != "");
  CHECK_FALSE(unpacker.complete());
}

TEST_CASE("The unpacker refuses what breaks the format", "[descriptors]") {
  // A full token on device 0 (13): address 1, 1 byte; then what is under test.
  CHECK(feed(2, 2, {0, 0, 13, 1, 1, 4}) == "");
  CHECK(feed(9, 9, {}) == "descriptor segment is empty");
  CHECK(feed(9, 9, {0, 0}) == "descriptor segment is empty");
  CHECK(feed(9, 9, {64, 0, 13, 1, 1}) == "descriptor shift exceeds 63");
  CHECK(feed(9, 9, {0, 64, 13, 1, 1}) == "descriptor shift exceeds 63");
  CHECK(feed(9, 9, {0, 0, 2}) == "the first descriptor must be a full one");
  CHECK(feed(9, 9, {0, 0, 11, 1}) == "the first descriptor must be a full one");
  CHECK(feed(9, 9, {0, 0, 9, 1}) == "descriptor match reaches before the first");
  CHECK(feed(9, 9, {0, 0, 7}) == "unknown descriptor token");
  CHECK(feed(9, 9, {0, 0, 15}) == "unknown descriptor token");
  CHECK(feed(9, 9, {0, 0, 13, 1}) == "descriptor number is malformed");
  CHECK(feed(9, 9, {0, 0, 0x8d, 0x00, 1, 1}) == "descriptor number is malformed");
  CHECK(feed(9, 9, {0, 0, 13, 1, 0x80}) == "descriptor number is malformed");
  CHECK(feed(9, 9, {0, 0, 13, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2, 1}) ==
        "descriptor number is malformed");
  CHECK(feed(9, 9, {0, 0, 13, 1, 0}) == "descriptor size is 0 or exceeds 64 bits");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 3, 0}) == "descriptor size is 0 or exceeds 64 bits");
  CHECK(feed(9, 9, {0, 63, 13, 1, 1, 3, 2}) == "descriptor size is 0 or exceeds 64 bits");
  CHECK(feed(9, 9, {0, 0, 13, 0, 1}) == "descriptor address is null or wraps around 2^64");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 2}) == "descriptor address is null or wraps around 2^64");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 6}) == "descriptor address is null or wraps around 2^64");
  CHECK(feed(9, 9, {0, 0, 13, 5, 1, 38}) == "descriptor address is null or wraps around 2^64");
  CHECK(feed(9, 9, {63, 0, 13, 1, 1, 8}) == "descriptor address is null or wraps around 2^64");
  CHECK(feed(9, 9, {0, 0, 13, 1, 10}) == "descriptor sizes sum to more than announced");
  CHECK(feed(1, 9, {0, 0, 13, 1, 1}) == "descriptor sizes sum to less than announced");
  CHECK(feed(1, 1, {0, 0, 13, 1, 1, 4}) == "more descriptors than announced");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 4, 1, 1}) == "more descriptors than announced");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 4, 9, 0}) == "descriptor match reaches before the first");
  CHECK(feed(9, 9, {0, 0, 13, 1, 1, 4, 9, 2}) == "descriptor match reaches before the first");
  CHECK(feed(4, 4, {0, 0, 13, 1, 1, 4, 17, 1}) == "");
  CHECK(feed(4, 4, {0, 0, 13, 1, 1, 4, 25, 1}) == "more descriptors than announced");
  CHECK(feed(9, 3, {0, 0, 13, 1, 1, 4, 17, 1}) ==
        "descriptor match wraps around 2^64 or exceeds the sum announced");
  // The second span is 2 below the first: the third would start at -1.
  CHECK(feed(9, 9, {0, 0, 13, 3, 1, 3 * 2, 9, 1}) ==
        "descriptor match wraps around 2^64 or exceeds the sum announced");
  CHECK(feed(9, 9, {0, 0, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1}) ==
        "descriptor device exceeds 2^31 - 1");
}

TEST_CASE("An unpacker that has refused once refuses for good", "[descriptors]") {
  DescriptorUnpacker unpacker(1, 1);
  CHECK(unpacker.feed(bytes({0, 0, 7})) == "unknown descriptor token");
  CHECK(unpacker.feed(bytes({0, 0, 13, 1, 1})) == "unknown descriptor token");
  CHECK_FALSE(unpacker.complete());
}

TEST_CASE("A short message cannot make the unpacker reserve what it announces", "[descriptors]") {
  DescriptorUnpacker unpacker(std::uint64_t{1} << 60, std::uint64_t{1} << 60);
  CHECK(unpacker.feed(bytes({0, 0, 13, 1, 1})) == "");
  CHECK(unpacker.spans().capacity() <= 256);
}

TEST_CASE("Changed bits never yield a span that breaks a promise", "[descriptors]") {
  std::mt19937_64 random(GENERATE(range(1u, 21u)));
  auto const spans = random() % 2 == 0 ? anything(random, 1 + random() % 300)
                                       : make({8, 20, 4096, random() % 2 == 0, true}, random);
  auto const segments = pack(spans, [&] { return 64 + random() % 300; });
  for (int round = 0; round < 300; ++round) {
    auto changed = segments;
    for (auto n = 1 + random() % 4; n > 0; --n) {
      auto& segment = changed[random() % changed.size()];
      segment[random() % segment.size()] ^= static_cast<std::byte>(1u << random() % 8);
    }
    if (random() % 4 == 0) changed[random() % changed.size()].resize(random() % 64);
    if (random() % 4 == 0) std::swap(changed.front(), changed.back());
    check_promises(changed, spans.size(), sum(spans));
  }
}

TEST_CASE("Random bytes never yield a span that breaks a promise", "[descriptors]") {
  std::mt19937_64 random(GENERATE(range(1u, 11u)));
  for (int round = 0; round < 500; ++round) {
    Segments segments(1 + random() % 4);
    for (auto& segment : segments) {
      segment.resize(random() % 60);
      for (auto& b : segment) b = static_cast<std::byte>(random() % (random() % 2 ? 256 : 24));
      if (segment.size() > 2) segment[0] = segment[1] = std::byte{0};
    }
    check_promises(segments, random() % 1000, random() % 100'000);
  }
}
