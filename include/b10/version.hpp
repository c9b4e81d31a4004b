#pragma once

#include <cstdint>

namespace b10 {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

/// Version of the wire protocol. Two nodes talk only if theirs are equal.
inline constexpr std::uint16_t protocol_version = 1;

}  // namespace b10
