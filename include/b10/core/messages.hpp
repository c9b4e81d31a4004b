#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::wire {

/// Starts every frame: magic, protocol version, kind, frame length, then these, then a checksum.
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
  bool placed = false;  ///< the sender writes payloads into the receiver's views itself
  std::span<std::byte const> segment{};
};

/// Sender to receiver, control frame: further descriptor segments, sequence 1, 2, ...
struct Descriptors {
  Header header{};
  std::uint32_t sequence = 0;
  bool last_segment = false;
  std::span<std::byte const> segment{};
};

/// Which chunks a sender that has stopped never sent, and never will: all from `next` on, and the
/// first `count` of `skipped`, which are below.
struct Unsent {
  std::uint32_t next = 0;
  std::uint32_t count = 0;  ///< at most skipped_max
  std::array<std::uint32_t, 32> skipped{};

  [[nodiscard]] bool has(std::uint32_t chunk) const noexcept {
    auto const* const end = skipped.data() + count;
    return chunk >= next || std::find(skipped.data(), end, chunk) != end;
  }
  friend bool operator==(Unsent const&, Unsent const&) = default;
};

/// Sender to receiver, control frame: this transfer has ended here, nothing more will be sent.
/// `unsent` if everything that it did send will arrive, and nobody writes into its places any more.
struct Abort {
  Header header{};
  Reason reason{};
  std::string_view text{};
  std::optional<Unsent> unsent{};
};

/// Receiver to sender, control frame of a placed transfer: where the payloads of the next chunks
/// go, in the order of chunks and without gaps. A place is good for that chunk alone.
struct Places {
  Header header{};
  std::uint32_t first = 0;                ///< chunk that `list[0]` is for
  std::span<std::uint64_t const> list{};  ///< for encode; 1 to places_max of them
  std::uint32_t count = 0;                ///< set by decode
  std::array<std::uint64_t, 64> decoded{};
};

/// Either way, control frame, of no transfer: bytes that engines exchange beside transfers.
struct Note {
  Header header{};
  std::uint32_t sequence = 0;  ///< of this sender on this link, from 1: none is taken twice
  std::span<std::byte const> bytes{};
};

/// Receiver to sender, tagged. reason none: go ahead with at most `window` chunks in flight. Of a
/// placed transfer it carries the places of that first window, as Places does those that follow.
struct Ready {
  Header header{};
  Reason reason{};
  bool stale_generation = false;  ///< refused only because this generation is being retired
  std::uint32_t window = 0;
  std::string_view text{};
  std::span<std::uint64_t const> places{};  ///< for encode; at most ready_places_max of them
  std::uint32_t place_count = 0;            ///< set by decode
  std::array<std::uint64_t, 32> decoded{};
};

/// Receiver to sender, tagged. reason none: every destination byte is in place.
struct Result {
  Header header{};
  Reason reason{};
  std::uint64_t bytes = 0;
  std::string_view text{};
};

/// Precedes the payload of every DATA message; of a placed transfer it is all of it.
struct DataHeader {
  Generation generation{};
  TransferId transfer{};
  ChunkIndex chunk{};
  std::uint64_t bytes = 0;  ///< payload bytes that follow, or lie in the chunk's place
  std::uint64_t digest = 0;
  friend constexpr bool operator==(DataHeader const&, DataHeader const&) = default;
};

inline constexpr std::size_t places_max = std::tuple_size_v<decltype(Places::decoded)>;
inline constexpr std::size_t ready_places_max = std::tuple_size_v<decltype(Ready::decoded)>;
inline constexpr std::size_t data_header_bytes = 64;
inline constexpr std::size_t reply_bytes_max = 512;   ///< READY and RESULT
inline constexpr std::size_t frame_bytes_max = 4000;  ///< every control frame
inline constexpr std::size_t note_bytes_max = frame_bytes_max - 64;

}  // namespace b10::wire
