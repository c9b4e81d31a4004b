#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <b10/core/address_of.hpp>
#include <b10/core/granule_map.hpp>
#include <b10/core/plan_survey.hpp>
#include <b10/core/prefetch.hpp>
#include <b10/core/radix_sort.hpp>
#include <b10/core/span_list.hpp>
#include <b10/types.hpp>

namespace b10::core::detail {

/// Each span starts at or after the end of the one before.
template <class Span>
[[nodiscard]] bool is_ascending(std::span<Span const> spans) noexcept {
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (address_of(spans[i]) < address_of(spans[i - 1]) + spans[i - 1].bytes) return false;
  }
  return true;
}

/// Positions of the spans sorted by (device, address).
template <class Span>
[[nodiscard]] std::vector<Keyed> sorted(std::span<Span const> spans, Side const& side) {
  std::vector<Keyed> items;
  items.reserve(spans.size());
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    items.push_back({(address_of(spans[i]) - side.low) >> side.shift(), i});
  }
  radix_sort(items);
  if (side.one_device()) return items;
  for (Keyed& item : items) {  // host is -1
    item.key = static_cast<std::uint64_t>(std::int64_t{to_integer(spans[item.index].device)} + 1);
  }
  radix_sort(items);
  return items;
}

/// Whether any two spans on one device share a byte.
template <class Span>
[[nodiscard]] bool overlap(std::span<Span const> spans, Side const& side) {
  if (is_ascending(spans)) return false;
  if (side.fits_a_map(spans.size())) {
    auto const shift = side.shift();
    GranuleMap map(side.granules());
    for (Span const& s : spans) {
      auto const granule = (address_of(s) - side.low) >> shift;
      if (!map.mark(granule, ((s.bytes - 1) >> shift) + 1)) return true;
    }
    return false;
  }
  Span const* last = nullptr;
  for (Keyed const& item : sorted(spans, side)) {
    Span const& s = spans[item.index];
    // Nothing overlapped so far, so the span before is also the one that reaches furthest.
    if (last != nullptr && last->device == s.device &&
        address_of(s) < address_of(*last) + last->bytes) {
      return true;
    }
    last = &s;
  }
  return false;
}

/// One pair, member by member.
struct Pair {
  std::byte* from;
  std::uint64_t to;
  std::uint64_t bytes;
  Device from_on;
  Device to_on;
};

/// Appends pairs, which come sorted by (device, source address), to the lists of a plan, and merges
/// each with the one before if they are contiguous on both sides.
class PairAppender {
 public:
  PairAppender(SpanList<LocalSpan>& sources, SpanList<RemoteSpan>& destinations, std::size_t pairs)
      : sources_(sources), destinations_(destinations) {
    sources_.reserve(pairs);
    destinations_.reserve(pairs);
  }

  /// Appends pair_at(0) ... pair_at(count - 1). False, with some appended, if two sources overlap.
  template <class PairAt>
  [[nodiscard]] bool append(std::size_t count, PairAt pair_at) {
    auto const before = sources_.size();
    sources_.resize(before + count);
    destinations_.resize(before + count);
    LocalSpan* s = sources_.data() + before;
    RemoteSpan* d = destinations_.data() + before;
    Last last = last_;
    for (std::size_t i = 0; i < count; ++i) {
      prefetch_to_write(s);
      prefetch_to_write(d);
      Pair const p = pair_at(i);
      auto const address = reinterpret_cast<std::uintptr_t>(p.from);
      if (address < last.source_end && p.from_on == last.source_on) return false;
      // One branch for both sides: either side alone is contiguous too often to be predicted.
      bool const contiguous = ((address ^ last.source_end) | (p.to ^ last.destination_end)) == 0;
      if (contiguous && p.from_on == last.source_on && p.to_on == last.destination_on) {
        s[-1].bytes += p.bytes;
        d[-1].bytes += p.bytes;
      } else {
        s->address = p.from;
        s->bytes = p.bytes;
        s->device = p.from_on;
        d->address = p.to;
        d->bytes = p.bytes;
        d->device = p.to_on;
        ++s;
        ++d;
      }
      last = {address + p.bytes, p.to + p.bytes, p.from_on, p.to_on};
    }
    last_ = last;
    auto const after = static_cast<std::size_t>(s - sources_.data());
    sources_.resize(after);
    destinations_.resize(after);
    return true;
  }

 private:
  /// What the next pair must follow to be merged. Nothing starts at address 0, so the first pair
  /// follows nothing.
  struct Last {
    std::uint64_t source_end = 0;
    std::uint64_t destination_end = 0;
    Device source_on{};
    Device destination_on{};
  };

  SpanList<LocalSpan>& sources_;
  SpanList<RemoteSpan>& destinations_;
  Last last_{};
};

/// Appends the pairs at(0), at(1), ... of the lists.
template <class At>
[[nodiscard]] bool gather(std::span<LocalSpan const> sources,
                          std::span<RemoteSpan const> destinations, At at, PairAppender& plan) {
  return plan.append(sources.size(), [&](std::size_t i) {
    LocalSpan const& s = sources[at(i)];
    RemoteSpan const& d = destinations[at(i)];
    return Pair{s.address, d.address, s.bytes, s.device, d.device};
  });
}

/// gather() in sorted order; false if two sources overlap.
[[nodiscard]] inline bool gather_sorted(std::span<LocalSpan const> sources,
                                        std::span<RemoteSpan const> destinations, Side const& side,
                                        PairAppender& plan) {
  if (side.one_device() && is_ascending(sources)) {
    return gather(
        sources, destinations, [](std::size_t i) { return i; }, plan);
  }
  if (!side.fits_a_map(sources.size())) {
    auto const order = sorted(sources, side);
    return gather(
        sources, destinations, [&](std::size_t i) { return order[i].index; }, plan);
  }
  auto const granule = [low = side.low, shift = side.shift()](LocalSpan const& s) {
    return (address_of(s) - low) >> shift;
  };
  GranuleMap map(side.granules());
  for (LocalSpan const& s : sources) {
    if (!map.mark(granule(s))) return false;
  }
  map.count();
  auto const order = std::make_unique_for_overwrite<std::uint32_t[]>(sources.size());
  for (std::uint32_t i = 0; i < sources.size(); ++i) order[map.rank(granule(sources[i]))] = i;
  return gather(
      sources, destinations, [&](std::size_t i) { return order[i]; }, plan);
}

}  // namespace b10::core::detail
