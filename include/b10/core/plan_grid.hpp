#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <b10/core/address_of.hpp>
#include <b10/core/plan_order.hpp>
#include <b10/core/plan_survey.hpp>
#include <b10/core/prefetch.hpp>
#include <b10/core/radix_sort.hpp>
#include <b10/core/span_list.hpp>
#include <b10/types.hpp>

// KV pools are grids: the same blocks in each layer. A list of rows x columns pairs, each row the
// first one displaced, is validated, tested for overlap and sorted by its first row and its first
// column alone; of the pairs themselves it only has to be seen once that they are such rows.
// Whatever is not made of few such grids is left to the general way.
namespace b10::core::detail {

/// `rows` rows of `columns` pairs from pair `first` on, all of one size and on one pair of devices.
struct Grid {
  std::size_t first = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// Splits a list into grids; gives up early where there are none.
class GridFinder {
 public:
  static constexpr std::size_t grids_max = 64;

  GridFinder(std::span<LocalSpan const> sources, std::span<RemoteSpan const> destinations)
      : sources_(sources), destinations_(destinations), effort_left_(4 * sources.size()) {}

  /// Empty if the list is not worth it: too many grids, or grids that are nearly all edge.
  [[nodiscard]] std::vector<Grid> find() {
    std::vector<Grid> grids;
    std::size_t edges = 0;
    for (std::size_t at = 0; at < sources_.size();) {
      auto const grid = next(at);
      edges += grid.rows + grid.columns;
      if (grid.rows == 0 || grids.size() == grids_max || edges > sources_.size() / 4) return {};
      at += grid.rows * grid.columns;
      grids.push_back(grid);
    }
    return grids;
  }

 private:
  struct Step {
    std::uint64_t source;
    std::uint64_t destination;
    friend bool operator==(Step const&, Step const&) = default;
  };
  [[nodiscard]] Step step(std::size_t i) const noexcept {
    return {address_of(sources_[i + 1]) - address_of(sources_[i]),
            destinations_[i + 1].address - destinations_[i].address};
  }

  /// The grid that starts here; no rows if there is none.
  [[nodiscard]] Grid next(std::size_t first) {
    auto const pairs = sources_.size() - first;
    if (pairs < 2) return {first, rows_alike(first, 1), 1};
    auto const start = step(first);
    std::size_t stride = 2;  // so many pairs lie at one stride
    while (stride < pairs && step(first + stride - 1) == start) ++stride;
    // A second row begins with the same step as the first one, after any run of one stride.
    for (std::size_t columns = stride; 2 * columns <= pairs; ++columns) {
      if (!spend(1)) return {};
      if (step(first + columns) != start) continue;
      auto const rows = rows_alike(first, columns);
      if (rows == 0) break;  // no longer row will do either
      bool const worthwhile = rows >= 2 && 16 * rows * columns >= pairs;
      if (worthwhile) return {first, rows, columns};
    }
    return {first, rows_alike(first, stride) == 0 ? 0u : 1u, stride};
  }

  /// How many rows of this length the first one starts, itself included; 0: it is none.
  [[nodiscard]] std::size_t rows_alike(std::size_t first, std::size_t columns) noexcept {
    auto const rows = (sources_.size() - first) / columns;
    LocalSpan const* const s0 = sources_.data() + first;
    RemoteSpan const* const d0 = destinations_.data() + first;
    auto const bytes = s0->bytes;
    for (std::size_t row = 0; row < rows; ++row) {
      LocalSpan const* const s = s0 + row * columns;
      RemoteSpan const* const d = d0 + row * columns;
      auto const s_moved = address_of(*s) - address_of(*s0);
      auto const d_moved = d->address - d0->address;
      for (std::size_t i = 0; i < columns; ++i) {
        prefetch_to_read(s + i);
        prefetch_to_read(d + i);
        auto const differ = ((address_of(s[i]) - address_of(s0[i])) ^ s_moved) |
                            ((d[i].address - d0[i].address) ^ d_moved) | (s[i].bytes ^ bytes) |
                            (d[i].bytes ^ bytes);
        auto const devices =
            static_cast<std::uint32_t>((to_integer(s[i].device) ^ to_integer(s0->device)) |
                                       (to_integer(d[i].device) ^ to_integer(d0->device)));
        if ((differ | devices) != 0) return spend(row * columns + i) ? row : 0;
      }
    }
    return spend(rows * columns) ? rows : 0;
  }

  [[nodiscard]] bool spend(std::size_t effort) noexcept {
    effort_left_ -= std::min(effort, effort_left_);
    return effort_left_ != 0;
  }

  std::span<LocalSpan const> sources_;
  std::span<RemoteSpan const> destinations_;
  std::size_t effort_left_;  ///< pairs that may still be looked at
};

/// Where one side of a grid lies.
struct GridSide {
  std::vector<Keyed> rows{};     ///< sorted; keys: addresses of the first column
  std::vector<Keyed> columns{};  ///< sorted; keys: addresses of the first row
  std::uint64_t low = 0;
  std::uint64_t end = 0;
  Device device{};
  bool rows_apart = false;  ///< rows lie one after the other; else columns do
};

[[nodiscard]] inline std::uint64_t smallest_gap(std::vector<Keyed> const& sorted) noexcept {
  auto gap = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    gap = std::min(gap, sorted[i].key - sorted[i - 1].key);
  }
  return gap;
}

/// nullopt if spans overlap, are not valid, or rows and columns interleave.
template <class Span>
[[nodiscard]] std::optional<GridSide> lay_out(std::span<Span const> spans, Grid const& grid) {
  GridSide side;
  auto const bytes = spans[grid.first].bytes;
  auto const first = address_of(spans[grid.first]);
  side.device = spans[grid.first].device;
  if (bytes == 0 || to_integer(side.device) < to_integer(Device::host)) return std::nullopt;
  for (std::uint32_t i = 0; i < grid.rows; ++i) {
    side.rows.push_back({address_of(spans[grid.first + i * grid.columns]), i});
  }
  for (std::uint32_t i = 0; i < grid.columns; ++i) {
    side.columns.push_back({address_of(spans[grid.first + i]), i});
  }
  radix_sort(side.rows);
  radix_sort(side.columns);
  // How far a row reaches below and above its first column. All must lie within [1, 2^64 - 1).
  auto const below = first - side.columns.front().key;
  auto const above = side.columns.back().key - first;
  auto const highest = side.rows.back().key;
  if (side.rows.front().key <= below || above > ~highest || bytes > ~(highest + above)) {
    return std::nullopt;
  }
  side.low = side.rows.front().key - below;
  side.end = highest + above + bytes;
  auto const row_gap = smallest_gap(side.rows);
  auto const column_gap = smallest_gap(side.columns);
  side.rows_apart = row_gap >= below + above + bytes;
  bool const columns_apart = column_gap >= highest - side.rows.front().key + bytes;
  bool const apart = row_gap >= bytes && column_gap >= bytes;
  if (!apart || !(side.rows_apart || columns_apart)) return std::nullopt;
  return side;
}

/// A grid with both its sides.
struct LaidOut {
  Grid grid{};
  GridSide source{};
  GridSide destination{};
};

/// Sorts by (device, address) of one side; false if two overlap there.
template <class SideOf>
[[nodiscard]] bool sort_apart(std::vector<LaidOut>& grids, SideOf side) {
  std::sort(grids.begin(), grids.end(), [side](LaidOut const& a, LaidOut const& b) {
    GridSide const& x = side(a);
    GridSide const& y = side(b);
    return x.device != y.device ? x.device < y.device : x.low < y.low;
  });
  for (std::size_t i = 1; i < grids.size(); ++i) {
    GridSide const& x = side(grids[i - 1]);
    GridSide const& y = side(grids[i]);
    if (x.device == y.device && y.low < x.end) return false;
  }
  return true;
}

/// Appends the pairs of a grid in the order of their sources.
[[nodiscard]] inline bool append_grid(LaidOut const& g, std::span<LocalSpan const> sources,
                                      std::span<RemoteSpan const> destinations,
                                      PairAppender& plan) {
  struct Offset {
    std::uint64_t source;
    std::uint64_t destination;
  };
  auto const* const s0 = sources.data() + g.grid.first;
  auto const* const d0 = destinations.data() + g.grid.first;
  auto const offsets = [&](std::vector<Keyed> const& sorted, std::size_t stride) {
    std::vector<Offset> out;
    for (Keyed const& k : sorted) {
      out.push_back({k.key - address_of(*s0), d0[k.index * stride].address - d0->address});
    }
    return out;
  };
  auto const rows = offsets(g.source.rows, g.grid.columns);
  auto const columns = offsets(g.source.columns, 1);
  auto const& inner = g.source.rows_apart ? columns : rows;
  for (Offset const& outer : g.source.rows_apart ? rows : columns) {
    Pair const base{s0->address + static_cast<std::int64_t>(outer.source),
                    d0->address + outer.destination, s0->bytes, s0->device, d0->device};
    bool const good = plan.append(inner.size(), [&, base](std::size_t i) {
      // Offsets are modulo 2^64; a pointer takes them as signed.
      return Pair{base.from + static_cast<std::int64_t>(inner[i].source),
                  base.to + inner[i].destination, base.bytes, base.from_on, base.to_on};
    });
    if (!good) return false;
  }
  return true;
}

struct GridPlan {
  SpanList<LocalSpan> sources{};
  SpanList<RemoteSpan> destinations{};
  std::uint64_t bytes = 0;
};

/// The plan of a list made of grids that lie apart from each other; nullopt for any other list,
/// also if it is not valid, which the general way then finds out and explains.
[[nodiscard]] inline std::optional<GridPlan> plan_grids(std::span<LocalSpan const> sources,
                                                        std::span<RemoteSpan const> destinations) {
  constexpr std::size_t too_few_pairs = 64;
  if (sources.size() < too_few_pairs) return std::nullopt;
  std::uint64_t sum = 0;
  std::vector<LaidOut> grids;
  for (Grid const& grid : GridFinder(sources, destinations).find()) {
    auto source = lay_out(sources, grid);
    auto destination = lay_out(destinations, grid);
    if (!source || !destination) return std::nullopt;
    auto const bytes = sources[grid.first].bytes;
    auto const pairs = grid.rows * grid.columns;
    if (bytes > (std::numeric_limits<std::uint64_t>::max() - sum) / pairs) {
      return std::nullopt;
    }
    sum += pairs * bytes;
    grids.push_back({grid, std::move(*source), std::move(*destination)});
  }
  if (grids.empty() ||
      !sort_apart(grids, [](LaidOut const& g) -> auto& { return g.destination; }) ||
      !sort_apart(grids, [](LaidOut const& g) -> auto& { return g.source; })) {
    return std::nullopt;
  }
  GridPlan plan;
  plan.bytes = sum;
  PairAppender appender(plan.sources, plan.destinations, sources.size());
  for (LaidOut const& g : grids) {
    if (!append_grid(g, sources, destinations, appender)) return std::nullopt;
  }
  return plan;
}

}  // namespace b10::core::detail
