#pragma once

#include <algorithm>
#include <cstdint>

namespace b10::device {

/// How many partial sums the digest of so many bytes has: one a block. 64 blocks read scratch many
/// times faster than the bus brings or takes it, and leave the other SMs alone.
inline constexpr std::uint32_t digest_partials_max = 64;

[[nodiscard]] constexpr std::uint32_t digest_partials(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t block_bytes = 32 << 10;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>((bytes + block_bytes - 1) / block_bytes, digest_partials_max));
}

}  // namespace b10::device
