#include <b10/tag/hashed.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include <b10/core/tag_registry.hpp>

#include "laws/tag_scheme.hpp"
#include "support/catch.hpp"

using namespace b10;

namespace {

constexpr MessageIdentity identity(std::uint64_t transfer, std::uint32_t chunk = 0,
                                   MessageKind kind = MessageKind::data,
                                   std::uint32_t generation = 1, std::uint64_t domain = 7) {
  return {PairDomain{domain}, Generation{generation}, TransferId{transfer}, ChunkIndex{chunk},
          kind};
}

constexpr std::uint64_t hash(MessageIdentity m) { return to_integer(tag::Hashed{}.tag(m)); }

}  // namespace

TEST_CASE("Hashed obeys the tag laws", "[tag]") { laws::tag_scheme(tag::Hashed{}); }

TEST_CASE("Hashed gives these tags on every machine and version: they are part of the wire",
          "[tag]") {
  STATIC_REQUIRE(hash(identity(5)) == 0xa13abcc4bd117e7u);
  STATIC_REQUIRE(hash({}) == 0x2130748aaac80268u);
  STATIC_REQUIRE(hash(identity(~0ull, ~0u, MessageKind::result, ~0u, ~0ull)) ==
                 0x7683032410c99988u);
}

TEST_CASE("Hashed tells apart ids that agree in their low bits", "[tag][C02]") {
  for (std::uint64_t const n : {0ull, 5ull, 4095ull, 123'456'789ull}) {
    std::set<Tag> tags;
    for (std::uint64_t const step : {0ull, 1ull << 12, 1ull << 23, 1ull << 32}) {
      tags.insert(tag::Hashed{}.tag(identity(n + step)));
    }
    CHECK(tags.size() == 4);
  }
}

TEST_CASE("Hashed changes when any one field changes", "[tag]") {
  auto const base = hash(identity(5));
  CHECK(hash(identity(6)) != base);
  CHECK(hash(identity(5, 1)) != base);
  CHECK(hash(identity(5, 0, MessageKind::result)) != base);
  CHECK(hash(identity(5, 0, MessageKind::data, 2)) != base);
  CHECK(hash(identity(5, 0, MessageKind::data, 1, 8)) != base);
}

TEST_CASE("Hashed does not let a chunk of one kind look like a chunk of another", "[tag]") {
  std::set<Tag> tags;
  for (std::uint32_t chunk = 0; chunk < 1024; ++chunk) {
    for (auto const kind : {MessageKind::ready, MessageKind::result, MessageKind::data}) {
      tags.insert(tag::Hashed{}.tag(identity(5, chunk, kind)));
    }
  }
  CHECK(tags.size() == 3 * 1024);
}

TEST_CASE("Hashed gives a million live messages a million tags", "[tag]") {
  core::TagRegistry registry;
  std::vector<Tag> tags;
  for (std::uint64_t transfer = 0; transfer < 10'000; ++transfer) {
    for (std::uint32_t chunk = 0; chunk < 100; ++chunk) {
      tags.push_back(tag::Hashed{}.tag(identity(transfer, chunk)));
    }
  }
  CHECK(registry.reserve(tags));
}

TEST_CASE("Hashed spreads dense ids evenly over every part of the tag", "[tag]") {
  constexpr unsigned n = 1u << 16;
  for (unsigned const shift : {0u, 8u, 28u, 56u}) {
    std::array<unsigned, 256> bins{};
    for (unsigned i = 0; i < n; ++i) ++bins[(hash(identity(i)) >> shift) & 255];
    double chi2 = 0;
    for (auto const count : bins) chi2 += std::pow(count - n / 256.0, 2) / (n / 256.0);
    CHECK(chi2 < 360);  // 255 degrees of freedom: p < 1e-5
  }
}

TEST_CASE("Hashed flips half of the tag's bits when one bit of the id flips", "[tag]") {
  int flips = 0;
  int samples = 0;
  for (std::uint64_t id = 1; id <= 256; ++id) {
    for (int bit = 0; bit < 64; ++bit, ++samples) {
      flips += std::popcount(hash(identity(id)) ^ hash(identity(id ^ std::uint64_t{1} << bit)));
    }
  }
  auto const mean = static_cast<double>(flips) / samples;
  CHECK(mean > 31.8);
  CHECK(mean < 32.2);
}
