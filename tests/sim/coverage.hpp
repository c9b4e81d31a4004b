#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/schedule.hpp"
#include "sim/tally.hpp"

namespace campaign {

/// A fault of one kind at one step of the protocol.
using Cell = std::pair<Step, Action>;

[[nodiscard]] inline std::string to_string(Cell const& c) {
  return std::string(action_names[static_cast<std::size_t>(c.second)]) + " at \"" +
         std::string(step_names[static_cast<std::size_t>(c.first)]) + "\"";
}

template <class F>
void for_each_cell(F f) {
  for (std::size_t s = 0; s < step_count; ++s)
    for (std::size_t a = 0; a < action_count; ++a)
      f(Cell{static_cast<Step>(s), static_cast<Action>(a)});
}
[[nodiscard]] inline std::uint64_t hits(Tally const& t, Cell const& c) {
  return t.coverage[static_cast<std::size_t>(c.first)][static_cast<std::size_t>(c.second)];
}

struct Coverage {
  unsigned possible = 0;
  std::vector<Cell> empty{};                                   ///< could occur, and never did
  std::vector<std::pair<std::string_view, unsigned>> never{};  ///< why not, and in how many cells
};
[[nodiscard]] inline Coverage coverage_of(Tally const& t) {
  Coverage c;
  for_each_cell([&](Cell const& cell) {
    auto const why = why_never(cell.first, cell.second);
    if (why.empty()) {
      ++c.possible;
      if (hits(t, cell) == 0) c.empty.push_back(cell);
      return;
    }
    for (auto& [reason, n] : c.never)
      if (reason == why) {
        ++n;
        return;
      }
    c.never.emplace_back(why, 1u);
  });
  return c;
}

inline void print_empty(Coverage const& c) {
  std::printf("\n%u cells (protocol step x fault kind) can occur, %zu were hit, %zu never\n",
              c.possible, c.possible - c.empty.size(), c.empty.size());
  for (auto const& cell : c.empty) std::printf("  EMPTY %s\n", to_string(cell).c_str());
}

/// Times that a fault struck at a step; a letter where it cannot, and what the letters mean.
inline void print_coverage(Tally const& t) {
  auto const c = coverage_of(t);
  std::printf("\nTimes a fault struck at a step (letters: why it cannot)\n%-18s%9s", "", "passed");
  for (auto const name : action_names)
    std::printf("%8.*s", static_cast<int>(name.size()), name.data());
  for_each_cell([&](Cell const& cell) {
    auto const s = static_cast<std::size_t>(cell.first);
    if (cell.second == Action{})
      std::printf("\n%-18s%9" PRIu64, std::string(step_names[s]).c_str(), t.steps[s]);
    auto const why = why_never(cell.first, cell.second);
    if (why.empty()) return void(std::printf("%8" PRIu64, hits(t, cell)));
    char letter = 'a';
    for (auto const& [reason, n] : c.never) {
      if (reason == why) break;
      ++letter;
    }
    std::printf("%8c", letter);
  });
  std::printf("\n");
  char letter = 'a';
  for (auto const& [reason, n] : c.never)
    std::printf("  %c (%u cells): %.*s\n", letter++, n, static_cast<int>(reason.size()),
                reason.data());
}

}  // namespace campaign
