#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::wire {

/// Starts every frame: magic, protocol version, kind, frame length, then these.
struct Header {
  MessageKind kind{};  ///< set by the encoder of each message, whatever is in here
  Generation generation{};
  TransferId transfer{};
  Attempt attempt{};
  friend constexpr bool operator==(Header const&, Header const&) = default;
};

/// Sender to receiver, control frame. `segment` is the first piece of the packed destination
/// descriptors.
struct Control {
  Header header{};
  RequestId request{};
  Duration remaining{};  ///< time the transfer still has; only durations go on the wire; >= 0
  std::uint64_t bytes = 0;
  std::uint32_t spans = 0;
  std::uint32_t chunks = 0;  ///< cut(spans, slice_bytes).size(), checked by the receiver
  std::uint64_t slice_bytes = 0;
  bool ordered = false;
  std::uint8_t digest = 0;  ///< 0: none
  bool last_segment = false;
  std::span<std::byte const> segment{};
};

/// Sender to receiver, control frame: further descriptor segments, sequence 1, 2, ...
struct Descriptors {
  Header header{};
  std::uint32_t sequence = 0;
  bool last_segment = false;
  std::span<std::byte const> segment{};
};

/// Sender to receiver, control frame: this transfer has ended here, nothing more will be sent.
struct Abort {
  Header header{};
  Reason reason{};
  std::string_view text{};
};

/// Receiver to sender, tagged. reason none: go ahead with at most `window` chunks in flight.
struct Ready {
  Header header{};
  Reason reason{};
  bool stale_generation = false;  ///< refused only because this generation is being retired
  std::uint32_t window = 0;
  std::string_view text{};
};

/// Receiver to sender, tagged. reason none: every destination byte is in place.
struct Result {
  Header header{};
  Reason reason{};
  std::uint64_t bytes = 0;
  std::string_view text{};
};

/// Precedes the payload of every DATA message.
struct DataHeader {
  Generation generation{};
  TransferId transfer{};
  ChunkIndex chunk{};
  std::uint64_t bytes = 0;  ///< payload bytes that follow
  std::uint64_t digest = 0;
  friend constexpr bool operator==(DataHeader const&, DataHeader const&) = default;
};

inline constexpr std::size_t data_header_bytes = 64;
inline constexpr std::size_t reply_bytes_max = 512;   ///< READY and RESULT
inline constexpr std::size_t frame_bytes_max = 4000;  ///< every control frame

}  // namespace b10::wire
