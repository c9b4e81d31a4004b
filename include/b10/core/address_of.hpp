#pragma once

#include <cstdint>

#include <b10/types.hpp>

namespace b10::core::detail {

/// The address of either kind of span as a number.
[[nodiscard]] inline std::uint64_t address_of(LocalSpan const& s) noexcept {
  return reinterpret_cast<std::uintptr_t>(s.address);
}
[[nodiscard]] inline std::uint64_t address_of(RemoteSpan const& s) noexcept { return s.address; }

}  // namespace b10::core::detail
