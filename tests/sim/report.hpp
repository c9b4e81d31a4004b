#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include <b10/outcome.hpp>

#include "sim/coverage.hpp"
#include "sim/schedule.hpp"
#include "sim/tally.hpp"

/// What a campaign prints.
namespace campaign {

inline void print_outcomes(
    char const* side, std::map<std::pair<b10::Status, b10::Reason>, std::uint64_t> const& all) {
  std::printf("\n%s\n", side);
  for (auto const& [key, n] : all)
    std::printf("  %-12s %-17s %10" PRIu64 "\n", std::string(to_string(key.first)).c_str(),
                std::string(to_string(key.second)).c_str(), n);
}

inline void print_breaches(Tally const& t) {
  std::printf("\nRules K1-K8 found broken (times, in how many seeds)\n");
  for (std::size_t i = 0; i < breach_count; ++i) {
    auto const& b = breach_texts[i];
    std::printf("  K%u %-74.*s%10" PRIu64 "%8" PRIu64 "%s\n", b.rule,
                static_cast<int>(b.text.size()), b.text.data(), t.breaches[i], t.seeds_with[i],
                t.breaches[i] > 0 && b.corrupts ? "  silent corruption" : "");
  }
  std::printf("%" PRIu64 " breaches, %u kinds of silent corruption\n", t.breached(),
              corrupting_kinds(t));
}

struct Took {
  double seconds = 0;
  double cpu_seconds = 0;
};

inline void print_head(Tally const& t, Took const& took) {
  std::printf("%" PRIu64 " runs, %" PRIu64 " simulated transfers, %" PRIu64
              " bytes landed, %" PRIu64
              " events\n%.1f s (%.0f transfers/s), %.1f s of one core (%.0f transfers/s)\n",
              t.runs, t.transfers, t.bytes, t.events, took.seconds,
              static_cast<double>(t.transfers) / took.seconds, took.cpu_seconds,
              static_cast<double>(t.transfers) / took.cpu_seconds);
  std::printf("%" PRIu64 " bytes landed late, in receives that had been given up\n", t.late_bytes);
  std::printf("%" PRIu64 " runs with staging that senders write, %" PRIu64
              " whose payloads lose bits, with digests\n",
              t.shared_runs, t.digested_runs);
}

inline void print_report(Tally const& t, Took const& took, bool brief) {
  print_head(t, took);
  std::uint64_t struck = 0;
  for (auto const n : t.faults) struck += n;
  std::printf("\nFaults: %" PRIu64 " aimed, %" PRIu64 " struck\n", t.faults_aimed, struck);
  for (std::size_t a = 0; a < action_count; ++a)
    std::printf("  %-10s%10" PRIu64 "%s", std::string(action_names[a]).c_str(), t.faults[a],
                a % 5 == 4 ? "\n" : "");
  print_outcomes("Outcomes on the sender", t.sent);
  print_outcomes("Outcomes on the receiver", t.received);
  if (!brief) print_coverage(t);
  print_empty(coverage_of(t));
  print_breaches(t);
  std::printf("journal %016" PRIx64 "\n", t.journal);
}

/// The same campaign on three policy sets, side by side, as a Markdown table.
inline void print_comparison(Tally const (&all)[3]) {
  std::printf("\n| | b10 | v1 | v1-none |\n|---|--:|--:|--:|\n");
  auto const row = [&](std::string const& what, auto&& of) {
    std::printf("| %s | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", what.c_str(), of(all[0]),
                of(all[1]), of(all[2]));
  };
  row("runs", [](Tally const& t) { return t.runs; });
  row("transfers", [](Tally const& t) { return t.transfers; });
  row("reported as landed by the sender", [](Tally const& t) {
    auto const it = t.sent.find({b10::Status::landed, b10::Reason::none});
    return it == t.sent.end() ? std::uint64_t{0} : it->second;
  });
  for (std::size_t i = 0; i < breach_count; ++i) {
    std::string const bold = breach_texts[i].corrupts ? "**" : "";
    auto text = bold;
    text.append("K").append(std::to_string(breach_texts[i].rule)).append(" ");
    text.append(breach_texts[i].text).append(bold);
    row(text, [i](Tally const& t) { return t.breaches[i]; });
  }
  row("kinds of silent corruption (bold) found",
      [](Tally const& t) { return std::uint64_t{corrupting_kinds(t)}; });
}

}  // namespace campaign
