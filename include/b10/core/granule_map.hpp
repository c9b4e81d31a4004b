#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace b10::core {

/// One bit for each granule of an address range: tells whether spans overlap, and gives each
/// marked granule its place among all of them, both in constant time. For KV pools, whose blocks
/// lie on a grid, this replaces a sort by two passes over a map that fits into the cache.
class GranuleMap {
 public:
  explicit GranuleMap(std::uint64_t granules)
      : words_(static_cast<std::size_t>(granules / 64 + 1)) {}

  /// False if the granule was marked before.
  [[nodiscard]] bool mark(std::uint64_t granule) noexcept {
    return mark_bits(granule / 64, std::uint64_t{1} << granule % 64);
  }
  /// False if any of `count` > 0 granules was marked before.
  [[nodiscard]] bool mark(std::uint64_t first, std::uint64_t count) noexcept {
    if (count == 1) return mark(first);
    auto const last = first + count - 1;
    auto const head = ~std::uint64_t{0} << first % 64;
    auto const tail = ~std::uint64_t{0} >> (63 - last % 64);
    if (first / 64 == last / 64) return mark_bits(first / 64, head & tail);
    bool free = mark_bits(first / 64, head);
    for (auto w = first / 64 + 1; w < last / 64; ++w) free &= mark_bits(w, ~std::uint64_t{0});
    return mark_bits(last / 64, tail) && free;
  }

  /// Call once after the last mark and before the first rank.
  void count() {
    before_.reserve(words_.size());
    std::uint32_t marked = 0;
    for (auto const word : words_) {
      before_.push_back(marked);
      marked += ones(word);
    }
  }
  /// How many marked granules lie below this one.
  [[nodiscard]] std::uint32_t rank(std::uint64_t granule) const noexcept {
    auto const w = static_cast<std::size_t>(granule / 64);
    return before_[w] + ones(words_[w] & ((std::uint64_t{1} << granule % 64) - 1));
  }

 private:
  bool mark_bits(std::uint64_t word, std::uint64_t bits) noexcept {
    auto& w = words_[static_cast<std::size_t>(word)];
    bool const free = (w & bits) == 0;
    w |= bits;
    return free;
  }
  /// By hand: std::popcount is a library call unless the user compiles for a machine with popcnt.
  static constexpr std::uint32_t ones(std::uint64_t x) noexcept {
    x -= x >> 1 & 0x5555'5555'5555'5555u;
    x = (x & 0x3333'3333'3333'3333u) + (x >> 2 & 0x3333'3333'3333'3333u);
    x = (x + (x >> 4)) & 0x0f0f'0f0f'0f0f'0f0fu;
    return static_cast<std::uint32_t>(x * 0x0101'0101'0101'0101u >> 56);
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> before_{};
};

}  // namespace b10::core
