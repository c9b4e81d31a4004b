#pragma once

#include <concepts>

#include <b10/policy.hpp>

namespace b10 {
namespace req {

template <class C>
concept SaysWhatSuccessProves =
    requires {
      { C::proves_landing } -> std::convertible_to<bool>;
    } ||
    unmet<
        "add: static constexpr bool proves_landing = ... (true: success means RESULT after every "
        "destination copy event)">;

}  // namespace req

/// What "landed" on the sender proves. Laws: if proves_landing, the sender reports landed only
/// after RESULT{ok}, and the receiver sends that only after every destination copy event. Models:
/// completion::CopyEvent (reference), completion::Digested.
template <class C>
concept Completion = Policy<C> && req::SaysWhatSuccessProves<C>;

/// Whether success also takes equal digests of each chunk on both sides: for a policy that declares
/// static constexpr bool digests = true. Such a policy needs a DigestingCopyEngine.
template <class C>
inline constexpr bool wants_digests = [] {
  if constexpr (requires { bool{C::digests}; }) return C::digests;
  return false;
}();

}  // namespace b10
