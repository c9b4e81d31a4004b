#pragma once

#include <cstdint>
#include <string_view>

#include <b10/tag_scheme.hpp>

namespace b10::tag {

/// Folds a message's identity into the low 12 bits of its transfer id, its chunk modulo 256 and its
/// kind, as v1 transceivers do. It exists for comparison: two transfers of one pair whose ids agree
/// modulo 4,096 have the same tags, so that one takes the other's messages, live or left over. Do
/// not use it; tag::Hashed is the reference. With a quarantine that holds identities the registry
/// refuses the second of two such transfers; without one (see b10/v1.hpp) nothing does.
struct Low12 {
  static constexpr std::string_view name = "tag::Low12";
  static constexpr bool identities_recur = true;

  [[nodiscard]] constexpr Tag tag(MessageIdentity m) const noexcept {
    return Tag{(to_integer(m.transfer) & 0xfff) << 16 |
               std::uint64_t{to_integer(m.chunk) & 0xff} << 8 |
               (to_integer(m.kind) + std::uint64_t{1})};
  }
};

static_assert(TagScheme<Low12>, "tag::Low12 must model b10::TagScheme");

}  // namespace b10::tag
