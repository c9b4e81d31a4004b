#pragma once

#include <concepts>

#include <b10/policy.hpp>
#include <b10/types.hpp>

namespace b10 {

/// What a tag is derived from; no two live messages of a pair share one.
struct MessageIdentity {
  PairDomain domain{};
  Generation generation{};
  TransferId transfer{};
  ChunkIndex chunk{};
  MessageKind kind{};
  friend constexpr bool operator==(MessageIdentity const&, MessageIdentity const&) = default;
};

namespace req {

template <class P>
concept DerivesTag = requires(P const& p, MessageIdentity m) {
  { p.tag(m) } noexcept -> std::same_as<Tag>;
} || unmet<"add: Tag tag(MessageIdentity) const noexcept">;

template <class P>
concept SaysWhetherTagsRecur =
    requires {
      { P::identities_recur } -> std::convertible_to<bool>;
    } ||
    unmet<
        "add: static constexpr bool identities_recur = ... (true: a tag can repeat within one "
        "generation)">;

}  // namespace req

/// Names every message of a transfer by a 64-bit tag on which the transport matches. Laws
/// (tests/laws/tag_scheme.hpp): equal identities give equal tags; the control tag is never derived.
/// Models: tag::Hashed (reference).
template <class P>
concept TagScheme = Policy<P> && req::DerivesTag<P> && req::SaysWhetherTagsRecur<P>;

}  // namespace b10
