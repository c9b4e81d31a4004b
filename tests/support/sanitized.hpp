#pragma once

#include <cstddef>

namespace support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// How often a test of very many rounds goes round. Under a sanitizer, which slows it down tenfold
/// and sees a fault the first time, a tenth.
[[nodiscard]] constexpr std::size_t rounds(std::size_t all) { return sanitized ? all / 10 : all; }

}  // namespace support
