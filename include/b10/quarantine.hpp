#pragma once

#include <concepts>
#include <cstdint>

#include <b10/policy.hpp>
#include <b10/time.hpp>

namespace b10 {

/// What to do with something that sits in quarantine.
enum class Sentence : std::uint8_t {
  hold,     ///< keep it out of circulation
  drop,     ///< destroy its worker, then give its memory back to the system
  recycle,  ///< put it back into circulation as it is (v1 behaviour: unsafe)
};

namespace req {

template <class Q>
concept SaysWhatItHolds =
    requires {
      { Q::holds_views } -> std::convertible_to<bool>;
      { Q::holds_identities } -> std::convertible_to<bool>;
    } ||
    unmet<
        "add: static constexpr bool holds_views, holds_identities = ... (what sits out after "
        "uncertainty)">;

template <class Q>
concept SaysWhatComesAfter = requires {
  { Q::afterwards } -> std::convertible_to<Sentence>;
} || unmet<"add: static constexpr Sentence afterwards = ... (drop or recycle: what follows hold)">;

template <class Q>
concept Sentences =
    requires(Q const& q, Duration age, bool pending) {
      { q.sentence(age, pending) } noexcept -> std::same_as<Sentence>;
    } ||
    unmet<
        "add: Sentence sentence(Duration age, bool pending) const noexcept (pending: something may "
        "still touch it)">;

}  // namespace req

/// What sits out after an uncertain end, for how long, and what happens then. Laws: an entry of age
/// 0 is never dropped; once not held, longer never holds again, and what comes then is what
/// `afterwards` says; a policy that holds identities also holds views. Models: quarantine::Ttl
/// (reference).
template <class Q>
concept Quarantine =
    Policy<Q> && req::SaysWhatItHolds<Q> && req::SaysWhatComesAfter<Q> && req::Sentences<Q>;

}  // namespace b10
