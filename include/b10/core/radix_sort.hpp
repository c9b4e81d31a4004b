#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace b10::core {

/// What is sorted: the key, and the position of the element it stands for.
struct Keyed {
  std::uint64_t key = 0;
  std::uint32_t index = 0;
};

/// Sorts by key; equal keys keep their order. Least significant digit first, only as many digits
/// as the largest key has, so small keys are worth some effort of the caller.
/// Time O(items), memory a second array of them.
inline void radix_sort(std::vector<Keyed>& items) {
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  constexpr std::size_t too_few_to_count = 512;

  if (items.size() < too_few_to_count) {
    std::stable_sort(items.begin(), items.end(),
                     [](Keyed const& a, Keyed const& b) { return a.key < b.key; });
    return;
  }
  std::uint64_t used = 0;
  for (Keyed const& item : items) used |= item.key;
  std::vector<Keyed> other(items.size());
  for (unsigned shift = 0; shift < 64 && used >> shift != 0; shift += digit_bits) {
    std::array<std::uint32_t, digits> next{};
    for (Keyed const& item : items) ++next[item.key >> shift & (digits - 1)];
    std::uint32_t before = 0;
    for (std::uint32_t& n : next) {
      auto const count = n;
      n = before;
      before += count;
    }
    for (Keyed const& item : items) other[next[item.key >> shift & (digits - 1)]++] = item;
    items.swap(other);
  }
}

}  // namespace b10::core
