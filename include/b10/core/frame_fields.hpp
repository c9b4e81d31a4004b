#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <b10/bytes.hpp>
#include <b10/core/messages.hpp>
#include <b10/outcome.hpp>
#include <b10/types.hpp>
#include <b10/version.hpp>

namespace b10::wire {
namespace detail {

inline constexpr std::uint32_t frame_magic = 0x3031'426d;  // "mB10"
inline constexpr std::uint32_t data_magic = 0x3031'4264;   // "dB10"
inline constexpr std::size_t length_at = 8;
inline constexpr std::size_t check_at = 28;
inline constexpr std::size_t header_bytes = 32;
inline constexpr std::size_t control_bytes = header_bytes + 44;
inline constexpr std::size_t descriptors_bytes = header_bytes + 8;

/// Of a frame without its own field. Tells a frame that was changed on its way from one that was
/// not: one changed bit could otherwise send bytes to another place that is granted too. No defence
/// against whoever means it.
[[nodiscard]] inline std::uint32_t checksum(std::span<std::byte const> frame) noexcept {
  std::uint64_t h = frame.size();
  auto const add = [&h](std::span<std::byte const> part) {
    ByteReader in(part);
    while (in.left() > 0) {
      std::uint64_t word = 0;
      if (in.left() >= sizeof word)
        word = in.take<std::uint64_t>();
      else
        for (unsigned shift = 0; in.left() > 0; shift += 8)
          word |= std::uint64_t{in.take<std::uint8_t>()} << shift;
      // Every step is a bijection of h, so that no single change of a word can get lost.
      h = (h ^ word) * 0x9e3779b97f4a7c15u;
      h ^= h >> 32;
    }
  };
  if (frame.size() < header_bytes) return 0;
  add(frame.first(check_at));
  add(frame.subspan(header_bytes));
  return static_cast<std::uint32_t>(((h ^ h >> 30) * 0xbf58476d1ce4e5b9u) >> 32);
}

/// States the checksum of a frame that is otherwise complete.
inline void seal(std::span<std::byte> frame) noexcept {
  ByteWriter(frame.subspan(check_at)).put(checksum(frame));
}

inline void put_header(ByteWriter& out, Header const& h, MessageKind kind) noexcept {
  out.put(frame_magic);
  out.put(protocol_version);
  out.put(to_integer(kind));
  out.put(std::uint8_t{0});
  out.put(std::uint32_t{0});  // the length, put by finish()
  out.put(to_integer(h.generation));
  out.put(to_integer(h.transfer));
  out.put(to_integer(h.attempt));
  out.put(std::uint16_t{0});
  out.put(std::uint32_t{0});  // the checksum, put by finish()
}

inline void put_bool(ByteWriter& out, bool value) noexcept {
  out.put(static_cast<std::uint8_t>(value ? 1 : 0));
}

/// Ends a frame: states its length and checksum in its header. Empty if the frame did not fit.
[[nodiscard]] inline std::span<std::byte const> finish(ByteWriter const& frame,
                                                       std::span<std::byte> out) noexcept {
  if (!frame.ok()) return {};
  ByteWriter(out.subspan(length_at)).put(static_cast<std::uint32_t>(frame.used()));
  seal(out.first(frame.used()));
  return frame.written();
}

/// Puts as much of the text as fits; what was cut off shows as "...".
inline void put_text(ByteWriter& out, std::string_view text) noexcept {
  constexpr std::string_view dots = "...";
  std::size_t const field = sizeof(std::uint16_t);
  std::size_t const room =
      std::min<std::size_t>(out.room() < field ? 0 : out.room() - field, frame_bytes_max);
  bool const cut = text.size() > room;
  std::string_view const tail = cut ? dots.substr(0, std::min(dots.size(), room)) : "";
  std::string_view const head = cut ? text.substr(0, room - tail.size()) : text;
  out.put(static_cast<std::uint16_t>(head.size() + tail.size()));
  for (char const c : head) {
    out.put(static_cast<std::uint8_t>(is_control_character(c) ? ' ' : c));
  }
  out.put(as_byte_view(tail));
}

[[nodiscard]] inline bool take_bool(ByteReader& in, bool& good) noexcept {
  auto const value = in.take<std::uint8_t>();
  good &= value <= 1;
  return value == 1;
}

[[nodiscard]] inline Reason take_reason(ByteReader& in, bool& good) noexcept {
  auto const value = in.take<std::uint8_t>();
  good &= value < reason_count;
  return static_cast<Reason>(value);
}

[[nodiscard]] inline std::string_view take_text(ByteReader& in, bool& good) noexcept {
  auto const text = as_text(in.take_bytes(in.take<std::uint16_t>()));
  good &= is_plain_text(text);
  return text;
}

/// The header of a whole frame of at most `bytes_max`; `good` turns false if there is none.
[[nodiscard]] inline Header take_header(ByteReader& in, std::size_t bytes_max,
                                        bool& good) noexcept {
  auto const bytes = in.left();
  auto const whole = ByteReader(in).take_bytes(bytes);
  good &= bytes <= bytes_max;
  good &= in.take<std::uint32_t>() == frame_magic;
  good &= in.take<std::uint16_t>() == protocol_version;
  auto const kind = in.take<std::uint8_t>();
  good &= kind <= to_integer(MessageKind::note) && kind != to_integer(MessageKind::data);
  good &= in.take<std::uint8_t>() == 0;
  good &= in.take<std::uint32_t>() == bytes;
  Header h;
  h.kind = static_cast<MessageKind>(kind);
  h.generation = Generation{in.take<std::uint32_t>()};
  h.transfer = TransferId{in.take<std::uint64_t>()};
  h.attempt = Attempt{in.take<std::uint16_t>()};
  good &= in.take<std::uint16_t>() == 0;
  auto const check = in.take<std::uint32_t>();
  good &= in.ok();
  good = good && check == checksum(whole);
  return h;
}

}  // namespace detail

}  // namespace b10::wire
