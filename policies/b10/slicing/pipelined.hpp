#pragma once

#include <cstdint>
#include <string_view>

#include <b10/slicing.hpp>

namespace b10::slicing {

/// Slices of `SliceBytes`, up to `Depth` of one transfer in flight: slice i is gathered while
/// slices before it are on the wire or being scattered. The reference.
/// Use it unless you are measuring something else. Pieces of 1-8 MiB pass through the cache and
/// move about twice as fast as 512 MiB ones; below 1 MiB the cost per message shows.
/// SliceBytes [bytes]: 1 or more; a slice is never larger than its buffer. Depth [slices]: 1 or
/// more; 2 overlaps gather and wire, 3 adds the scatter, more smooths jitter. One transfer holds up
/// to Depth views on each side.
template <std::uint64_t SliceBytes = std::uint64_t{4} << 20, unsigned Depth = 4>
struct Pipelined {
  static_assert(SliceBytes > 0, "slicing::Pipelined needs SliceBytes of 1 byte or more");
  static_assert(Depth > 0, "slicing::Pipelined needs a Depth of 1 slice or more");

  static constexpr std::string_view name = "slicing::Pipelined";
  static constexpr unsigned depth = Depth;

  [[nodiscard]] static constexpr std::uint64_t slice_bytes(std::uint64_t buffer_bytes) noexcept {
    return SliceBytes < buffer_bytes ? SliceBytes : buffer_bytes;
  }
};

static_assert(Slicing<Pipelined<>>, "slicing::Pipelined must model b10::Slicing");

}  // namespace b10::slicing
