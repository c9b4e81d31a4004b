#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace b10::core {

inline constexpr std::size_t varint_bytes_max = 10;

/// Maps small magnitudes of either sign to small numbers: 0, -1, 1, -2 -> 0, 1, 2, 3.
[[nodiscard]] constexpr std::uint64_t zigzag(std::int64_t v) noexcept {
  return (static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63);
}
[[nodiscard]] constexpr std::int64_t unzigzag(std::uint64_t v) noexcept {
  return static_cast<std::int64_t>((v >> 1) ^ (~(v & 1) + 1));
}

/// LEB128: seven bits a byte, least significant first. `out` has varint_bytes_max bytes; returns
/// the end of what was written.
inline std::byte* put_varint(std::byte* out, std::uint64_t v) noexcept {
  for (; v >= 0x80; v >>= 7) *out++ = static_cast<std::byte>(v | 0x80);
  *out++ = static_cast<std::byte>(v);
  return out;
}

/// Takes one varint from the front of `in`. False, with `in` in an unspecified state, if it is cut
/// short, does not fit in 64 bits or is longer than its value needs.
[[nodiscard]] inline bool take_varint(std::span<std::byte const>& in, std::uint64_t& v) noexcept {
  v = 0;
  for (std::size_t i = 0; i < in.size() && i < varint_bytes_max; ++i) {
    auto const b = std::to_integer<std::uint64_t>(in[i]);
    v |= (b & 0x7f) << (7 * i);
    if (b >= 0x80) continue;
    bool const too_long = i > 0 && b == 0;
    bool const too_big = i + 1 == varint_bytes_max && b > 1;
    in = in.subspan(i + 1);
    return !too_long && !too_big;
  }
  return false;
}

}  // namespace b10::core
