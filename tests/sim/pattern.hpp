#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <b10/sim/random.hpp>

/// What a campaign writes into memory, so that any 8-byte word found anywhere tells where it comes
/// from.
namespace campaign {

using Word = std::uint64_t;

inline constexpr Word fresh_word = 0xA5A5A5A5A5A5A5A5u;     ///< a destination nobody has written
inline constexpr Word retired_word = 0xF5F5F5F5F5F5F5F5u;   ///< a destination given back
inline constexpr Word poisoned_word = 0xDEADDEADDEADDEADu;  ///< a source given back

/// The word `index` of job `serial`: both can be read from it, and 16 bits tell that it is one.
[[nodiscard]] inline Word pattern(std::uint32_t serial, std::uint32_t index) {
  Word const body = Word{serial & 0xff'ffff} << 24 | (index & 0xff'ffff);
  return (b10::sim::Random::mix(body + 1) & 0xffff) << 48 | body;
}
struct Origin {
  bool known = false;
  std::uint32_t serial = 0;
  std::uint32_t index = 0;
};
[[nodiscard]] inline Origin origin_of(Word w) {
  Origin const o{true, static_cast<std::uint32_t>(w >> 24 & 0xff'ffff),
                 static_cast<std::uint32_t>(w & 0xff'ffff)};
  return pattern(o.serial, o.index) == w ? o : Origin{};
}

[[nodiscard]] inline Word load(std::byte const* at) {
  Word w;
  std::memcpy(&w, at, sizeof w);
  return w;
}
inline void store(std::byte* at, Word w) { std::memcpy(at, &w, sizeof w); }
inline void fill(std::byte* at, std::size_t bytes, Word w) {
  for (std::size_t i = 0; i < bytes; i += sizeof w) store(at + i, w);
}

}  // namespace campaign
