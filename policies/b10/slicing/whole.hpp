#pragma once

#include <cstdint>
#include <string_view>

#include <b10/slicing.hpp>

namespace b10::slicing {

/// One chunk is one whole staging buffer; nothing of a transfer overlaps anything else of it.
/// Use it to compare with implementations that stage a request in one piece. Else use Pipelined: a
/// buffer of 512 MiB in one piece passes through no cache and moves at about half the speed of 1-8
/// MiB pieces.
struct Whole {
  static constexpr std::string_view name = "slicing::Whole";
  static constexpr unsigned depth = 1;

  [[nodiscard]] static constexpr std::uint64_t slice_bytes(std::uint64_t buffer_bytes) noexcept {
    return buffer_bytes;
  }
};

static_assert(Slicing<Whole>, "slicing::Whole must model b10::Slicing");

}  // namespace b10::slicing
