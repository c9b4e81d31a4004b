#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace b10::copy {

/// Copies `bytes` to memory that the caller will not read soon, without bringing its old contents
/// into the cache first: about twice as fast as memcpy for scattered blocks of 2 KiB and more, and
/// the staging slices stay cached. Ranges must not overlap. Call past_cache_done() before anyone is
/// told that the bytes are there. Plain memcpy where the processor has no such stores.
inline void past_cache(std::byte* to, std::byte const* from, std::uint64_t bytes) noexcept {
#if defined(__SSE2__)
  constexpr std::uint64_t line = 64;
  std::uint64_t const head = (0 - reinterpret_cast<std::uintptr_t>(to)) % line;
  if (bytes >= head + line) {
    std::memcpy(to, from, head);
    std::uint64_t at = head;
    for (; at + line <= bytes; at += line) {
      for (std::uint64_t i = 0; i < line; i += 16) {
        auto const* const in = reinterpret_cast<__m128i const*>(from + at + i);
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i), _mm_loadu_si128(in));
      }
    }
    to += at;
    from += at;
    bytes -= at;
  }
#endif
  std::memcpy(to, from, bytes);
}

/// Orders what past_cache() wrote before everything that follows.
inline void past_cache_done() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace b10::copy
