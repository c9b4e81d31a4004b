#pragma once

#include <cstdint>
#include <string_view>

#include <b10/quarantine.hpp>
#include <b10/time.hpp>

namespace b10::quarantine {
namespace detail {

/// The rule both spellings share: time is necessary, not sufficient. A transport may write into a
/// cancelled, closed buffer long after any time limit, so an entry that is still pending is held
/// whatever its age.
template <std::int64_t Nanoseconds>
struct TtlRule {
  static_assert(Nanoseconds > 0,
                "quarantine::Ttl needs a time above 0: an entry of age 0 is never dropped");

  static constexpr bool holds_views = true;
  static constexpr bool holds_identities = true;
  static constexpr Sentence afterwards = Sentence::drop;
  static constexpr Duration ttl{Nanoseconds};

  /// Drops at the later of the time limit and quiescence; never recycles. Whoever asks destroys the
  /// worker first, which is what ends `pending` for a message that will never complete.
  [[nodiscard]] constexpr Sentence sentence(Duration age, bool pending) const noexcept {
    return age < ttl || pending ? Sentence::hold : Sentence::drop;
  }
};

}  // namespace detail

/// After uncertainty views, tags, ids and generations sit out for at least `Seconds`, and as long
/// as something may still touch them; then the memory is dropped and the pool refilled with fresh
/// memory. The reference (120 s). Use it unless you are measuring something else. A shorter time
/// only gives memory back sooner: it must stay above the longest time a peer may live on believing
/// in its old connection. Seconds [s]: 1 or more.
template <unsigned Seconds = 120>
struct Ttl : detail::TtlRule<std::int64_t{Seconds} * 1'000'000'000> {
  static constexpr std::string_view name = "quarantine::Ttl";
};

/// Ttl in milliseconds, for tests and soak runs that must see the end of it.
template <unsigned Milliseconds>
struct TtlMs : detail::TtlRule<std::int64_t{Milliseconds} * 1'000'000> {
  static constexpr std::string_view name = "quarantine::TtlMs";
};

static_assert(Quarantine<Ttl<>>, "quarantine::Ttl must model b10::Quarantine");
static_assert(Quarantine<TtlMs<1>>, "quarantine::TtlMs must model b10::Quarantine");

}  // namespace b10::quarantine
