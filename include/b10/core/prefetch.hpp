#pragma once

#include <cstddef>
#include <cstdint>

namespace b10::core {

/// How far a pass over a long list asks for memory before it gets there, in bytes. The processor
/// does so by itself only to the end of a 4 KiB page, and one page holds no more than 170 spans.
inline constexpr std::size_t prefetch_bytes = 3072;

namespace detail {

/// A number, since it may point behind the list; such an address is asked for in vain, no more.
[[nodiscard]] inline void const* ahead(void const* at) noexcept {
  return reinterpret_cast<void const*>(reinterpret_cast<std::uintptr_t>(at) + prefetch_bytes);
}

}  // namespace detail

/// A pass in ascending order reads what `at` points to.
inline void prefetch_to_read(void const* at) noexcept { __builtin_prefetch(detail::ahead(at), 0); }

/// A pass in ascending order writes what `at` points to.
inline void prefetch_to_write(void const* at) noexcept { __builtin_prefetch(detail::ahead(at), 1); }

}  // namespace b10::core
