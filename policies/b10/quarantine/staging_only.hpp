#pragma once

#include <cstdint>
#include <string_view>

#include <b10/quarantine.hpp>
#include <b10/time.hpp>

namespace b10::quarantine {
namespace detail {

/// The rule both spellings share: time is thought to be enough.
template <std::int64_t Nanoseconds>
struct StagingOnlyRule {
  static_assert(Nanoseconds > 0, "quarantine::StagingOnly needs a time above 0");

  static constexpr bool holds_views = true;
  static constexpr bool holds_identities = false;
  static constexpr Sentence afterwards = Sentence::recycle;
  static constexpr Duration time{Nanoseconds};

  [[nodiscard]] constexpr Sentence sentence(Duration age, bool) const noexcept {
    return age < time ? Sentence::hold : Sentence::recycle;
  }
};

}  // namespace detail

/// After a failure its staging views sit out for `Seconds`, then they are used again as they are,
/// whether or not something may still write into them; tags, ids and generations are free at once,
/// and memory of the caller is reported quiet while copies still run. It is what hardened v1
/// transceivers do, and exists for comparison. Do not use it; quarantine::Ttl is the reference.
/// Seconds [s]: 1 or more.
template <unsigned Seconds = 10>
struct StagingOnly : detail::StagingOnlyRule<std::int64_t{Seconds} * 1'000'000'000> {
  static constexpr std::string_view name = "quarantine::StagingOnly";
};

/// StagingOnly in milliseconds, for simulations that must see the end of it.
template <unsigned Milliseconds>
struct StagingOnlyMs : detail::StagingOnlyRule<std::int64_t{Milliseconds} * 1'000'000> {
  static constexpr std::string_view name = "quarantine::StagingOnlyMs";
};

static_assert(Quarantine<StagingOnly<>>, "quarantine::StagingOnly must model b10::Quarantine");
static_assert(Quarantine<StagingOnlyMs<1>>, "quarantine::StagingOnlyMs must model b10::Quarantine");

}  // namespace b10::quarantine
