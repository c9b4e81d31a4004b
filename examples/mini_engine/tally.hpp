// What a run is judged by.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "common/format.hpp"
#include "common/memory.hpp"
#include "timeline.hpp"

namespace mini {

struct Memory {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  [[nodiscard]] bool grown() const { return last > first + demo::growth_max; }
};

struct Tally {
  std::uint64_t requests = 0;
  std::uint64_t landed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t gave_up = 0;  ///< failed by a fate, not tried again
  std::uint64_t retried = 0;
  std::uint64_t kills = 0;
  std::uint64_t tokens = 0;
  std::uint64_t held_tokens = 0;    ///< not sent: decode had their KV
  std::uint64_t reused_tokens = 0;  ///< not computed: prefill had their KV
  std::uint64_t bytes = 0;
  std::uint64_t verified_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t leaked_blocks = 0;
  std::map<std::string, std::uint64_t> failures{};  ///< by reason
  std::vector<std::string> unexpected{};            ///< failures that nothing was done to cause
  Memory decode{}, prefill{};
  b10::Duration took{};
  std::vector<b10::Duration> latency{};
  Timeline timeline{};

  /// What is wrong with the run; empty: nothing.
  [[nodiscard]] std::string verdict() const {
    if (wrong_bytes > 0) return std::to_string(wrong_bytes) + " WRONG BYTES";
    if (leaked_blocks > 0) return std::to_string(leaked_blocks) + " LEAKED BLOCKS";
    if (!unexpected.empty())
      return std::to_string(unexpected.size()) +
             " failures without a cause, the first: " + unexpected.front();
    if (landed + cancelled + gave_up != requests) return "some requests have no end";
    if (decode.grown()) return "the memory of decode has grown";
    if (prefill.grown()) return "the memory of prefill has grown";
    return {};
  }
};

namespace detail {

template <class... Values>
std::string format(char const* form, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}
inline void row(char const* name, std::string const& text) {
  std::printf("  %-22s %s\n", name, text.c_str());
}
inline std::string share(std::uint64_t part, std::uint64_t of) {
  return format("%.1f %%",
                of == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(of));
}

}  // namespace detail

inline void print(Tally const& t) {
  using namespace detail;
  using Large = unsigned long long;
  auto const n = [](std::uint64_t v) { return static_cast<Large>(v); };
  row("requests", format("%llu: %llu landed, %llu cancelled, %llu given up; %llu tries again",
                         n(t.requests), n(t.landed), n(t.cancelled), n(t.gave_up), n(t.retried)));
  std::string reasons;
  for (auto const& [reason, count] : t.failures)
    reasons += (reasons.empty() ? "" : ", ") + reason + " " + std::to_string(count);
  row("failed tries", reasons.empty() ? "none" : reasons);
  row("... without a cause", std::to_string(t.unexpected.size()));
  row("peer deaths", std::to_string(t.kills));
  row("bytes", demo::amount(t.bytes) + format(", %.0f MB/s over %.1f s",
                                              static_cast<double>(t.bytes) / t.took.seconds() / 1e6,
                                              t.took.seconds()));
  row("prefix reuse", share(t.held_tokens, t.tokens) + " of the tokens not sent, " +
                          share(t.reused_tokens, t.tokens) + " not computed");
  row("wrong bytes",
      format("%llu of ", n(t.wrong_bytes)) + demo::amount(t.verified_bytes) + " looked at");
  row("leaked blocks", std::to_string(t.leaked_blocks));
  for (auto const* memory : {&t.decode, &t.prefill})
    row(memory == &t.decode ? "memory of decode" : "memory of prefill",
        demo::amount(memory->first) + " when warm, " + demo::amount(memory->last) + " at the end");
  row("a request",
      format("p50 %.1f ms, p99 %.1f ms, from asking prefill to landed",
             demo::percentile_ms(t.latency, 0.5), demo::percentile_ms(t.latency, 0.99)));
  row("transfer hidden",
      format("%.1f %% of its time ran beside compute", 100 * t.timeline.hidden()));
  auto const tails = t.timeline.tails();
  row("last compute to landed",
      format("p50 %.2f ms, p99 %.2f ms; a chunk before the last takes p50 %.2f ms, p99 %.2f ms",
             demo::percentile_ms(tails.tails, 0.5), demo::percentile_ms(tails.tails, 0.99),
             demo::percentile_ms(tails.chunks, 0.5), demo::percentile_ms(tails.chunks, 0.99)));
}

}  // namespace mini
