#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>

#include "sim/schedule.hpp"

namespace campaign {

/// The ways in which a rule of K1-K8 can be found broken.
enum class Breach : std::uint8_t {
  success_before_landing,
  success_never_landed,
  other_transfer,
  recycled_staging,
  misplaced,
  hole,
  source_reused,
  garbage,
  gather_on_free_page,
  scatter_on_free_page,
  dropped_staging_written,
  unmapped_early,
  written_outside,
  failed_span_wrong,
  overdue,
  never_ended,
  ended_twice,
  staging_books,
  staging_lost,
  tag_matched_twice,
  generation_reused,
  healthy_pair_failed,
};
struct BreachText {
  std::uint8_t rule;
  bool corrupts;  ///< somebody may read wrong bytes and nobody was told
  std::string_view text;
};
inline constexpr BreachText breach_texts[] = {
    {1, true, "success reported before the bytes had landed"},
    {1, true, "success reported, and the bytes never landed"},
    {1, true, "landed with another transfer's bytes: a stale message of the same tag"},
    {1, true, "landed with another transfer's bytes: a late write into staging used again"},
    {1, true, "landed with its own bytes in the wrong place: a message of the same tag"},
    {1, true, "landed with bytes missing: a short or foreign message taken for the whole"},
    {1, true, "landed with bytes of a source page that was reused during the gather"},
    {1, true, "landed with bytes that nobody has written"},
    {2, true, "a source page given back while a gather could read it"},
    {2, true, "a destination page given back while a scatter could write it"},
    {2, true, "staging written after it was given back to the system"},
    {2, true, "a peer's staging unmapped while a copy could write it"},
    {3, true, "bytes outside of the named spans changed"},
    {3, true, "a failed transfer left bytes that are not its own"},
    {4, false, "ended after its deadline and the slack"},
    {4, false, "never ended"},
    {5, false, "ended twice on one side"},
    {6, false, "free + leased + quarantined + abandoned is not the total"},
    {6, false, "staging did not come back after quarantine"},
    {7, false, "a tag matched twice"},
    {7, false, "a generation was used twice"},
    {8, false, "a transfer between healthy nodes failed"},
};
inline constexpr std::size_t breach_count = std::size(breach_texts);
static_assert(breach_count == static_cast<std::size_t>(Breach::healthy_pair_failed) + 1);

/// What one run, or all of them, came to.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t broken_runs = 0;
  std::uint64_t shared_runs = 0;    ///< in which senders write the receivers' staging
  std::uint64_t digested_runs = 0;  ///< in which b10 has digests
  std::uint64_t transfers = 0;
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t late_bytes = 0;  ///< landed in staging after their receive had been given up
  std::uint64_t faults_aimed = 0;
  std::array<std::uint64_t, action_count> faults{};
  std::array<std::array<std::uint64_t, action_count>, step_count> coverage{};
  std::array<std::uint64_t, step_count> steps{};
  std::map<std::pair<b10::Status, b10::Reason>, std::uint64_t> sent{};
  std::map<std::pair<b10::Status, b10::Reason>, std::uint64_t> received{};
  std::array<std::uint64_t, breach_count> breaches{};
  std::array<std::uint64_t, breach_count> seeds_with{};
  std::uint64_t journal = 0;           ///< hash over all runs
  std::vector<std::string> details{};  ///< of the first of each kind

  [[nodiscard]] std::uint64_t breached() const {
    std::uint64_t n = 0;
    for (auto const b : breaches) n += b;
    return n;
  }
  void breach(Breach b, std::string detail) {
    if (++breaches[static_cast<std::size_t>(b)] <= 2)
      details.push_back("K" + std::to_string(breach_texts[static_cast<std::size_t>(b)].rule) + " " +
                        std::string(breach_texts[static_cast<std::size_t>(b)].text) + ": " +
                        std::move(detail));
  }
  void hit(Step s, Action a) {
    ++faults[static_cast<std::size_t>(a)];
    ++coverage[static_cast<std::size_t>(s)][static_cast<std::size_t>(a)];
  }
  void add(Tally const& t) {
    runs += t.runs;
    broken_runs += t.breached() > 0;
    shared_runs += t.shared_runs;
    digested_runs += t.digested_runs;
    transfers += t.transfers;
    bytes += t.bytes;
    events += t.events;
    late_bytes += t.late_bytes;
    faults_aimed += t.faults_aimed;
    for (std::size_t i = 0; i < action_count; ++i) faults[i] += t.faults[i];
    for (std::size_t s = 0; s < step_count; ++s) {
      steps[s] += t.steps[s];
      for (std::size_t i = 0; i < action_count; ++i) coverage[s][i] += t.coverage[s][i];
    }
    for (auto const& [k, n] : t.sent) sent[k] += n;
    for (auto const& [k, n] : t.received) received[k] += n;
    for (std::size_t i = 0; i < breach_count; ++i) {
      breaches[i] += t.breaches[i];
      seeds_with[i] += t.breaches[i] > 0;
    }
    journal = b10::sim::Random::mix(journal ^ t.journal);
  }
};

/// Kinds in which bytes were silently wrong.
[[nodiscard]] inline unsigned corrupting_kinds(Tally const& t) {
  unsigned n = 0;
  for (std::size_t i = 0; i < breach_count; ++i) n += t.breaches[i] > 0 && breach_texts[i].corrupts;
  return n;
}

}  // namespace campaign
