#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <b10/contract.hpp>

#include "sim/run.hpp"
#include "sim/sets.hpp"
#include "sim/tally.hpp"

namespace campaign {

/// A set of policies as campaigns run it, and what it claims.
struct ClaimingSet {
  std::string_view name;
  std::array<b10::Guarantee, 7> contract;
  Run run;
};

[[nodiscard]] inline std::vector<ClaimingSet> claiming_sets() {
  using b10::contract_of;
  using b10::completion::Digested;
  using V1Set = V1<WatchedStaging, b10::quarantine::StagingOnlyMs<8>>;
  return {
      {"the reference", contract_of<B10<WatchedStaging>>::all(), run_b10},
      {"with Digested", contract_of<B10<WatchedStaging, Digested>>::all(), run_b10_digested},
      {"with SendComplete", contract_of<SendCompleteB10>::all(), run_send_complete},
      {"with Low12", contract_of<Low12B10>::all(), run_low12},
      {"with None", contract_of<NoQuarantineB10>::all(), run_no_quarantine},
      {"v1", contract_of<V1Set>::all(), run_v1},
  };
}

/// The breaches that a guarantee rules out.
[[nodiscard]] inline std::vector<Breach> ruled_out_by(std::string_view guarantee) {
  using enum Breach;
  if (guarantee == "landed_before_success") return {success_before_landing, success_never_landed};
  if (guarantee == "late_write_contained") return {recycled_staging};
  if (guarantee == "identity_never_recurs") return {tag_matched_twice, generation_reused};
  if (guarantee == "message_checked") return {other_transfer, misplaced, hole};
  if (guarantee == "pages_protected")
    return {source_reused, gather_on_free_page, scatter_on_free_page};
  if (guarantee == "integrity_checked") return {garbage};
  // request_scoped_failure: no other one's bytes, nor its success
  return {other_transfer,  recycled_staging,  source_reused,      scatter_on_free_page,
          written_outside, failed_span_wrong, healthy_pair_failed};
}

/// Runs in which what the guarantee rules out would happen often enough to be seen: bits of
/// payloads flip, or scatters are held up, so that what comes late meets them.
[[nodiscard]] inline RunOptions options_for(std::string_view guarantee, std::uint64_t seed) {
  RunOptions o{.seed = seed};
  o.corrupt_payload = guarantee == "integrity_checked";
  if (o.corrupt_payload) o.aim = {Step::data_posted, Action::corrupt};
  if (guarantee == "late_write_contained") o.aim = {Step::scatter_moving, Action::hold_copy};
  return o;
}

[[nodiscard]] inline std::uint64_t count(Tally const& t, std::string_view guarantee) {
  std::uint64_t n = 0;
  for (Breach const b : ruled_out_by(guarantee)) n += t.breaches[static_cast<std::size_t>(b)];
  return n;
}

}  // namespace campaign
