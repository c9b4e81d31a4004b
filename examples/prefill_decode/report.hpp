// What the user sees: one line while it runs, a table at the end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <b10/steady_clock.hpp>

#include "common/format.hpp"

namespace demo {

/// Counts and times of a run.
struct Results {
  std::uint64_t landed = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t spans = 0;
  std::uint64_t held_tokens = 0;  ///< not sent: decode had their KV
  std::uint64_t tokens = 0;
  b10::Duration transfer{};  ///< while requests were on their way
  std::uint64_t raw_bytes = 0;
  b10::Duration raw{};
  std::vector<b10::Duration> latency{};
  static constexpr std::array<char const*, 5> stage_names = {"queued", "connecting", "to READY",
                                                             "DATA", "to RESULT"};
  std::array<std::vector<b10::Duration>, 5> stages{};
  std::string staging{};  ///< of decode, at the end

  [[nodiscard]] static double rate(std::uint64_t bytes, b10::Duration took) {
    return took.ns > 0 ? static_cast<double>(bytes) / static_cast<double>(took.ns)
                       : 0;  // B/ns = GB/s
  }
  [[nodiscard]] double speed() const { return rate(bytes, transfer); }
  [[nodiscard]] double raw_speed() const { return rate(raw_bytes, raw); }
  [[nodiscard]] double ratio() const { return raw_speed() > 0 ? speed() / raw_speed() : 0; }
};

/// A line that is rewritten on a terminal; elsewhere at most about twenty lines.
class Progress {
 public:
  explicit Progress(std::uint64_t total) : total_(total) {}
  ~Progress() { clear(); }
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;

  void show(Results const& r) {
    auto const now = b10::steady_now();
    std::uint64_t const step = terminal_ ? r.landed : r.landed * 20 / total_;
    if (step == shown_ || (terminal_ && now - shown_at_ < b10::milliseconds(50))) return;
    shown_at_ = now;
    shown_ = step;
    std::printf("%s%llu of %llu requests, %s, %.2f GB/s%s", terminal_ ? "\r\033[K" : "",
                static_cast<unsigned long long>(r.landed), static_cast<unsigned long long>(total_),
                amount(r.bytes).c_str(), r.speed(), terminal_ ? "" : "\n");
    std::fflush(stdout);
  }
  /// What goes on now, without a count.
  void say(char const* what) {
    if (!terminal_) return;
    std::printf("\r\033[K%s ...", what);
    std::fflush(stdout);
  }
  /// A line that stays.
  void note(std::string const& line) {
    clear();
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  void clear() {
    if (terminal_) std::printf("\r\033[K");
  }

 private:
  std::uint64_t total_;
  std::uint64_t shown_ = 0;
  b10::Instant shown_at_{};
  bool terminal_ = isatty(STDOUT_FILENO) == 1;
};

inline void print_table(Results const& r) {
  auto const row = [](char const* name, std::string const& text) {
    std::printf("  %-14s %s\n", name, text.c_str());
  };
  auto const format = [](char const* form, auto... values) {
    char text[160];
    std::snprintf(text, sizeof text, form, values...);
    return std::string(text);
  };
  using Large = unsigned long long;
  std::printf("\n");
  row("requests", format("%llu landed, %llu failed", Large{r.landed}, Large{r.failed}));
  row("bytes", amount(r.bytes) + format(" in %llu spans of %s on average", Large{r.spans},
                                        amount(r.spans > 0 ? r.bytes / r.spans : 0).c_str()));
  if (r.held_tokens > 0)
    row("prefix reuse",
        format("%.1f %% of the tokens were not sent",
               100.0 * static_cast<double>(r.held_tokens) / static_cast<double>(r.tokens)));
  row("throughput", format("%.2f GB/s, raw UCX in host memory %.2f GB/s, ratio %.2f", r.speed(),
                           r.raw_speed(), r.ratio()));
  row("a request", format("p50 %.2f ms, p99 %.2f ms, from asking prefill to landed",
                          percentile_ms(r.latency, 0.5), percentile_ms(r.latency, 0.99)));
  std::string stages, tails;
  for (std::size_t i = 0; i < r.stages.size(); ++i) {
    std::string const separator = i == 0 ? "" : ", ";
    stages +=
        separator + format("%s %.2f", Results::stage_names[i], percentile_ms(r.stages[i], 0.5));
    tails +=
        separator + format("%s %.2f", Results::stage_names[i], percentile_ms(r.stages[i], 0.99));
  }
  row("stages, p50 ms", stages);
  row("stages, p99 ms", tails);
  row("staging", r.staging);
}

}  // namespace demo
