#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/plan_grid.hpp>
#include <b10/core/plan_order.hpp>
#include <b10/core/plan_survey.hpp>
#include <b10/core/span_list.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// A validated WRITE: sources[i] goes to destinations[i], equal sizes, no empty pair.
struct Plan {
  SpanList<LocalSpan> sources{};
  SpanList<RemoteSpan> destinations{};
  std::uint64_t bytes = 0;
  bool ordered = false;  ///< a side overlaps itself: caller's order kept, one chunk in flight
};

/// One chunk: `count` spans from `first`, less the first `skip` bytes of the first, `bytes` in all
/// (so the last span may go on in the next chunk).
struct Chunk {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint64_t skip = 0;
  std::uint64_t bytes = 0;
  friend constexpr bool operator==(Chunk const&, Chunk const&) = default;
};

inline constexpr std::uint64_t chunks_max = 1u << 16;

/// Checks the lists and puts the pairs in the order in which they are best moved.
///
/// Unless a side overlaps itself on one device, pairs are sorted by (device, source address) and
/// those that are contiguous on both sides are merged. Pairs of zero bytes are dropped. Time
/// O(pairs), a few ns each when the blocks lie on a grid; memory 48 B a pair for the plan.
/// Pure; throws Error{invalid_request} naming index, value and limit.
/// `spans_max`: Config::spans_max, most pairs accepted.
[[nodiscard]] inline Plan make_plan(std::span<LocalSpan const> sources,
                                    std::span<RemoteSpan const> destinations,
                                    std::uint64_t spans_max);

/// Cuts spans into chunks as they come, by their sizes alone.
class Cutter {
 public:
  /// Throws Error{invalid_request} if slice_bytes is 0.
  explicit Cutter(std::uint64_t slice_bytes);

  /// The next span. Throws Error{invalid_request} if there would be > chunks_max chunks.
  void add(std::uint64_t bytes);
  /// There is no further span: what is open becomes the last chunk.
  void finish();
  /// Those that no further span can change. In order, without gaps.
  [[nodiscard]] std::vector<Chunk> const& chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::vector<Chunk> take() && noexcept { return std::move(chunks_); }

 private:
  void flush(Chunk next);

  std::uint64_t slice_bytes_;
  std::uint32_t spans_ = 0;
  Chunk open_{};
  std::vector<Chunk> chunks_{};
};

/// Greedy cut by sizes; both sides compute it from the same sizes, so it is never sent.
///
/// A chunk ends before the span that would make it exceed slice_bytes, and at once when it is
/// exactly full. An empty span opens no chunk of its own except at the very end. A span longer
/// than a slice starts a chunk and goes on in the next ones.
/// Pure; throws Error{invalid_request} if slice_bytes is 0 or there would be > chunks_max chunks.
template <class Span>
[[nodiscard]] std::vector<Chunk> cut(std::span<Span const> spans, std::uint64_t slice_bytes);

namespace detail {

/// The widest count that the 32-bit positions of Chunk and Keyed can hold.
inline constexpr std::uint64_t positions_max = std::numeric_limits<std::uint32_t>::max();

/// The lists without pairs of zero bytes, which touch nothing and so overlap nothing.
[[nodiscard]] inline Plan without_empty(std::span<LocalSpan const> sources,
                                        std::span<RemoteSpan const> destinations) {
  Plan kept;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].bytes == 0) continue;
    kept.sources.push_back(sources[i]);
    kept.destinations.push_back(destinations[i]);
  }
  return kept;
}

}  // namespace detail

inline Plan make_plan(std::span<LocalSpan const> sources, std::span<RemoteSpan const> destinations,
                      std::uint64_t spans_max) {
  if (sources.size() != destinations.size()) {
    detail::refuse(std::to_string(sources.size()) + " sources but " +
                   std::to_string(destinations.size()) +
                   " destinations; a WRITE needs one destination for each source");
  }
  auto const most = spans_max < detail::positions_max ? spans_max : detail::positions_max;
  if (sources.size() > most) {
    detail::refuse(std::to_string(sources.size()) + " pairs exceed the limit of " +
                   std::to_string(most) + " (Config::spans_max); raise it or split the request");
  }
  if (auto grid = detail::plan_grids(sources, destinations)) {
    return {std::move(grid->sources), std::move(grid->destinations), grid->bytes, false};
  }
  auto found = detail::survey(sources, destinations);
  if (found.bytes == 0) return {};
  Plan kept;
  if (found.any_empty) {
    kept = detail::without_empty(sources, destinations);
    sources = kept.sources;
    destinations = kept.destinations;
    found = detail::survey(sources, destinations);
  }
  Plan plan{{}, {}, found.bytes};
  if (!detail::overlap(destinations, found.destination)) {
    detail::PairAppender appender(plan.sources, plan.destinations, sources.size());
    if (detail::gather_sorted(sources, destinations, found.source, appender)) return plan;
  }
  plan.ordered = true;
  plan.sources.assign(sources);
  plan.destinations.assign(destinations);
  return plan;
}

inline Cutter::Cutter(std::uint64_t slice_bytes) : slice_bytes_(slice_bytes) {
  if (slice_bytes == 0) {
    detail::refuse("slices of 0 B hold nothing; the slicing policy must give at least 1 B");
  }
}

inline void Cutter::flush(Chunk next) {
  if (chunks_.size() == chunks_max) {
    detail::refuse("more than " + std::to_string(chunks_max) + " chunks with slices of " +
                   std::to_string(slice_bytes_) +
                   " B; use larger slices (slicing policy, staging buffer bytes) or split "
                   "the request");
  }
  chunks_.push_back(open_);
  open_ = next;
}

inline void Cutter::add(std::uint64_t bytes) {
  std::uint32_t const i = spans_++;
  std::uint64_t left = bytes;
  if (left > slice_bytes_ - open_.bytes && open_.bytes != 0) flush({.first = i});
  ++open_.count;
  while (left >= slice_bytes_ - open_.bytes) {
    left -= slice_bytes_ - open_.bytes;
    open_.bytes = slice_bytes_;
    flush(left == 0 ? Chunk{.first = i + 1} : Chunk{.first = i, .count = 1, .skip = bytes - left});
  }
  open_.bytes += left;
}

inline void Cutter::finish() {
  if (open_.count != 0) flush({});
}

template <class Span>
std::vector<Chunk> cut(std::span<Span const> spans, std::uint64_t slice_bytes) {
  Cutter cutter(slice_bytes);
  if (spans.size() > detail::positions_max) {
    detail::refuse(std::to_string(spans.size()) + " spans exceed the limit of " +
                   std::to_string(detail::positions_max) + "; split the request");
  }
  for (Span const& span : spans) cutter.add(span.bytes);
  cutter.finish();
  return std::move(cutter).take();
}

}  // namespace b10::core
