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
/// completion::CopyEvent (reference).
template <class C>
concept Completion = Policy<C> && req::SaysWhatSuccessProves<C>;

}  // namespace b10
