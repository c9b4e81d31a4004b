#pragma once

#include <cstdint>
#include <string_view>

#include <b10/tag_scheme.hpp>

namespace b10::tag {

/// Hashes the whole identity into 64 bits, so that nothing of it is truncated. The reference.
/// Use it unless you must interoperate with a scheme that packs fields into the tag.
/// With 2 million live tags the chance of any collision is about 1e-7; one that happens is caught
/// by the registry. Stateless, constexpr, cannot fail. An identity that would hash to the control
/// tag gets tag 1 instead. Both sides derive the same tags, so a change of this function is a
/// change of the wire protocol.
struct Hashed {
  static constexpr std::string_view name = "tag::Hashed";
  static constexpr bool identities_recur = false;

  [[nodiscard]] constexpr Tag tag(MessageIdentity m) const noexcept {
    std::uint64_t h = mix(to_integer(m.domain));
    h = mix(h ^ to_integer(m.generation));
    h = mix(h ^ to_integer(m.transfer));
    h = mix(h ^ (std::uint64_t{to_integer(m.chunk)} << 8 | to_integer(m.kind)));
    return h == to_integer(control_tag) ? Tag{1} : Tag{h};
  }

 private:
  /// The splitmix64 finaliser (Steele, Lea, Flood 2014): a bijection in which every input bit
  /// changes every output bit with probability 1/2. So ids of one generation that differ never
  /// collide before the last field is mixed in.
  static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
};

static_assert(TagScheme<Hashed>, "tag::Hashed must model b10::TagScheme");

}  // namespace b10::tag
