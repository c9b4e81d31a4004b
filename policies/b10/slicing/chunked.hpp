#pragma once

#include <cstdint>
#include <string_view>

#include <b10/slicing.hpp>

namespace b10::slicing {

/// Slices of `SliceBytes`, staged and sent strictly one after another.
/// Use it where one transfer must never hold more than one view (a very small pool with many
/// transfers), or to see what overlap is worth. Else use Pipelined: here the wire idles during each
/// gather and the gather during each send. SliceBytes [bytes]: 1 or more; a slice is never larger
/// than its buffer.
template <std::uint64_t SliceBytes>
struct Chunked {
  static_assert(SliceBytes > 0, "slicing::Chunked needs SliceBytes of 1 byte or more");

  static constexpr std::string_view name = "slicing::Chunked";
  static constexpr unsigned depth = 1;

  [[nodiscard]] static constexpr std::uint64_t slice_bytes(std::uint64_t buffer_bytes) noexcept {
    return SliceBytes < buffer_bytes ? SliceBytes : buffer_bytes;
  }
};

static_assert(Slicing<Chunked<1>>, "slicing::Chunked must model b10::Slicing");

}  // namespace b10::slicing
