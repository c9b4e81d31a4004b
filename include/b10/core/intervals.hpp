#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <b10/core/radix_sort.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// Bytes [begin, end) of one device; numbers only, never followed.
struct Interval {
  Device device = Device::host;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend constexpr bool operator==(Interval const&, Interval const&) = default;
};

/// Whether [address, address + bytes) passes 2^64. A span that ends exactly there counts, so that
/// every end fits.
[[nodiscard]] constexpr bool wraps(std::uint64_t address, std::uint64_t bytes) noexcept {
  return bytes > std::numeric_limits<std::uint64_t>::max() - address;
}

/// A set of bytes of all devices: intervals sorted by (device, begin), with gaps between them.
/// Building it costs n log n, or n if they come sorted; looking one up takes constant time on
/// evenly spread blocks, in whatever order they are asked for: for each device a table leads from a
/// part of the address range to the few intervals that begin in it. Memory: 24 bytes an interval,
/// up to 8 for the table.
class IntervalSet {
 public:
  IntervalSet() = default;
  /// Any order; overlapping and touching ones are merged. None is empty.
  explicit IntervalSet(std::vector<Interval> intervals) : sorted_(std::move(intervals)) {
    if (!std::is_sorted(sorted_.begin(), sorted_.end(), Before{})) sort();
    merge();
    for (std::size_t first = 0; first < sorted_.size();) {
      auto last = first;
      while (last < sorted_.size() && sorted_[last].device == sorted_[first].device) ++last;
      tables_.push_back(make_table(first, last));
      first = last;
    }
  }

  /// Index of the interval that holds all of a span which does not wrap, or `none`.
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  [[nodiscard]] std::size_t find(Interval const& span) const noexcept {
    for (Table const& table : tables_) {
      if (table.device != span.device) continue;
      if (span.begin < table.base) return none;
      auto const part = (span.begin - table.base) >> table.shift;
      if (part + 1 >= table.first.size()) return none;
      auto const at = [&](std::uint32_t i) { return sorted_.begin() + i; };
      auto const after =  // first that begins behind the span's begin
          std::upper_bound(at(table.first[part]), at(table.first[part + 1]), span.begin,
                           [](std::uint64_t begin, Interval const& i) { return begin < i.begin; });
      if (after == sorted_.begin() || !holds(*(after - 1), span)) return none;
      return static_cast<std::size_t>(after - sorted_.begin()) - 1;
    }
    return none;
  }

  /// Whether any byte of `other` is in this set.
  [[nodiscard]] bool touches(Interval const& other) const noexcept {
    auto const first = std::partition_point(sorted_.begin(), sorted_.end(), [&](Interval const& i) {
      return std::tie(i.device, i.end) <= std::tie(other.device, other.begin);
    });
    return first != sorted_.end() && first->device == other.device && first->begin < other.end;
  }

 private:
  /// first[p]: index of the first interval that begins in part p of 2^shift bytes or behind it.
  struct Table {
    Device device{};
    std::uint64_t base = 0;
    unsigned shift = 0;
    std::vector<std::uint32_t> first{};
  };

  struct Before {  // a type, so that it is inlined
    [[nodiscard]] bool operator()(Interval const& a, Interval const& b) const noexcept {
      return std::tie(a.device, a.begin) < std::tie(b.device, b.begin);
    }
  };
  [[nodiscard]] static bool holds(Interval const& outer, Interval const& inner) noexcept {
    return outer.device == inner.device && outer.begin <= inner.begin && inner.end <= outer.end;
  }

  /// By (device, begin): digit by digit for the lists of blocks that grants are.
  void sort() {
    auto const order = [this](auto key) {
      std::vector<Keyed> items;
      items.reserve(sorted_.size());
      for (std::uint32_t i = 0; i < sorted_.size(); ++i) items.push_back({key(sorted_[i]), i});
      radix_sort(items);
      std::vector<Interval> ordered;
      ordered.reserve(sorted_.size());
      for (Keyed const& item : items) ordered.push_back(sorted_[item.index]);
      sorted_ = std::move(ordered);
    };
    if (sorted_.size() > std::numeric_limits<std::uint32_t>::max())
      return std::sort(sorted_.begin(), sorted_.end(), Before{});
    auto low = std::numeric_limits<std::uint64_t>::max();
    for (Interval const& i : sorted_) low = std::min(low, i.begin);
    order([low](Interval const& i) { return i.begin - low; });
    if (std::any_of(sorted_.begin(), sorted_.end(),
                    [&](Interval const& i) { return i.device != sorted_.front().device; }))
      order([](Interval const& i) {  // any int, in its order
        return static_cast<std::uint64_t>(std::int64_t{to_integer(i.device)} -
                                          std::numeric_limits<std::int32_t>::min());
      });
  }

  void merge() {
    std::size_t kept = 0;
    for (Interval const& next : sorted_) {
      if (kept > 0 && sorted_[kept - 1].device == next.device &&
          next.begin <= sorted_[kept - 1].end) {
        sorted_[kept - 1].end = std::max(sorted_[kept - 1].end, next.end);
      } else {
        sorted_[kept++] = next;
      }
    }
    sorted_.resize(kept);
  }

  /// The table of sorted_[first, last), one device. At most two parts an interval.
  [[nodiscard]] Table make_table(std::size_t first, std::size_t last) const {
    Table table{sorted_[first].device, sorted_[first].begin};
    auto const range = sorted_[last - 1].end - table.base;
    while ((range >> table.shift) > 2 * (last - first)) ++table.shift;
    auto const parts = static_cast<std::size_t>(range >> table.shift) + 1;
    table.first.reserve(parts + 1);
    for (auto i = first; i < last; ++i) {
      auto const part = (sorted_[i].begin - table.base) >> table.shift;
      while (table.first.size() <= part) table.first.push_back(static_cast<std::uint32_t>(i));
    }
    table.first.resize(parts + 1, static_cast<std::uint32_t>(last));
    return table;
  }

  std::vector<Interval> sorted_{};
  std::vector<Table> tables_{};
};

}  // namespace b10::core
