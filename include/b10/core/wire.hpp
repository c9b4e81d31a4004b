#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <b10/bytes.hpp>
#include <b10/core/frame_fields.hpp>
#include <b10/core/messages.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>
#include <b10/version.hpp>

namespace b10::wire {

// Each encoder writes at most out.size() bytes, and no more than the limits above, and returns the
// frame; texts are cut to fit. Empty: the fixed fields or the segment did not fit. A segment may
// already lie at its place in `out`.

[[nodiscard]] inline std::span<std::byte const> encode(Control const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), frame_bytes_max));
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::control);
  w.put(to_integer(m.request));
  w.put(static_cast<std::uint64_t>(m.remaining.ns));
  w.put(m.bytes);
  w.put(m.spans);
  w.put(m.chunks);
  w.put(m.slice_bytes);
  detail::put_bool(w, m.ordered);
  w.put(m.digest);
  detail::put_bool(w, m.last_segment);
  detail::put_bool(w, m.placed);
  w.put(m.segment);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Descriptors const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), frame_bytes_max));
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::descriptors);
  w.put(m.sequence);
  detail::put_bool(w, m.last_segment);
  w.put(std::uint8_t{0});
  w.put(std::uint16_t{0});
  w.put(m.segment);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Abort const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), frame_bytes_max));
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::abort);
  w.put(to_integer(m.reason));
  w.put(std::uint8_t{m.unsent.has_value()});
  if (m.unsent) {
    if (m.unsent->count > m.unsent->skipped.size()) return {};
    w.put(m.unsent->next);
    w.put(m.unsent->count);
    for (std::uint32_t i = 0; i < m.unsent->count; ++i) w.put(m.unsent->skipped[i]);
  }
  detail::put_text(w, m.text);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Places const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), frame_bytes_max));
  if (m.list.empty() || m.list.size() > places_max) return {};
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::places);
  w.put(m.first);
  w.put(static_cast<std::uint32_t>(m.list.size()));
  for (std::uint64_t const place : m.list) w.put(place);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Note const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), frame_bytes_max));
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::note);
  w.put(m.sequence);
  w.put(m.bytes);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Ready const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), reply_bytes_max));
  if (m.places.size() > ready_places_max) return {};
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::ready);
  w.put(to_integer(m.reason));
  detail::put_bool(w, m.stale_generation);
  w.put(static_cast<std::uint16_t>(m.places.size()));
  w.put(m.window);
  for (std::uint64_t const place : m.places) w.put(place);
  detail::put_text(w, m.text);
  return detail::finish(w, out);
}

[[nodiscard]] inline std::span<std::byte const> encode(Result const& m,
                                                       std::span<std::byte> out) noexcept {
  out = out.first(std::min(out.size(), reply_bytes_max));
  ByteWriter w(out);
  detail::put_header(w, m.header, MessageKind::result);
  w.put(to_integer(m.reason));
  w.put(m.bytes);
  detail::put_text(w, m.text);
  return detail::finish(w, out);
}

inline void encode(DataHeader const& m, std::span<std::byte, data_header_bytes> out) noexcept {
  ByteWriter w(out);
  w.put(detail::data_magic);
  w.put(protocol_version);
  w.put(std::uint16_t{data_header_bytes});
  w.put(to_integer(m.generation));
  w.put(to_integer(m.chunk));
  w.put(to_integer(m.transfer));
  w.put(m.bytes);
  w.put(m.digest);
  while (w.room() > 0) w.put(std::uint8_t{0});
}

// Each decoder returns nullopt for anything that is not exactly such a frame. Decoded segments and
// texts point into the input.

/// Of any frame but DATA; says which decoder the rest needs.
[[nodiscard]] inline std::optional<Header> decode_header(
    std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  auto const header = detail::take_header(in, frame_bytes_max, good);
  if (!good) return std::nullopt;
  return header;
}

[[nodiscard]] inline std::optional<Control> decode_control(
    std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Control m;
  m.header = detail::take_header(in, frame_bytes_max, good);
  m.request = RequestId{in.take<std::uint64_t>()};
  m.remaining = Duration{static_cast<std::int64_t>(in.take<std::uint64_t>())};
  m.bytes = in.take<std::uint64_t>();
  m.spans = in.take<std::uint32_t>();
  m.chunks = in.take<std::uint32_t>();
  m.slice_bytes = in.take<std::uint64_t>();
  m.ordered = detail::take_bool(in, good);
  m.digest = in.take<std::uint8_t>();
  m.last_segment = detail::take_bool(in, good);
  m.placed = detail::take_bool(in, good);
  m.segment = in.take_bytes(in.left());
  good &= m.header.kind == MessageKind::control && m.remaining.ns >= 0;
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Descriptors> decode_descriptors(
    std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Descriptors m;
  m.header = detail::take_header(in, frame_bytes_max, good);
  m.sequence = in.take<std::uint32_t>();
  m.last_segment = detail::take_bool(in, good);
  good &= in.take<std::uint8_t>() == 0;
  good &= in.take<std::uint16_t>() == 0;
  m.segment = in.take_bytes(in.left());
  good &= m.header.kind == MessageKind::descriptors;
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Abort> decode_abort(std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Abort m;
  m.header = detail::take_header(in, frame_bytes_max, good);
  m.reason = detail::take_reason(in, good);
  auto const has_unsent = in.take<std::uint8_t>();
  good &= m.header.kind == MessageKind::abort && has_unsent <= 1;
  if (good && has_unsent == 1) {
    auto& u = m.unsent.emplace();
    u.next = in.take<std::uint32_t>();
    u.count = in.take<std::uint32_t>();
    good &= u.count <= u.skipped.size();
    for (std::uint32_t i = 0; good && i < u.count; ++i) u.skipped[i] = in.take<std::uint32_t>();
  }
  m.text = detail::take_text(in, good);
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Note> decode_note(std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Note m;
  m.header = detail::take_header(in, frame_bytes_max, good);
  m.sequence = in.take<std::uint32_t>();
  m.bytes = in.take_bytes(in.left());
  good &= m.header.kind == MessageKind::note;
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Places> decode_places(
    std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Places m;
  m.header = detail::take_header(in, frame_bytes_max, good);
  m.first = in.take<std::uint32_t>();
  m.count = in.take<std::uint32_t>();
  good &= m.header.kind == MessageKind::places && m.count >= 1 && m.count <= places_max;
  for (std::uint32_t i = 0; good && i < m.count; ++i) m.decoded[i] = in.take<std::uint64_t>();
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Ready> decode_ready(std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Ready m;
  m.header = detail::take_header(in, reply_bytes_max, good);
  m.reason = detail::take_reason(in, good);
  m.stale_generation = detail::take_bool(in, good);
  m.place_count = in.take<std::uint16_t>();
  m.window = in.take<std::uint32_t>();
  good &= m.place_count <= ready_places_max;
  for (std::uint32_t i = 0; good && i < m.place_count; ++i) m.decoded[i] = in.take<std::uint64_t>();
  m.text = detail::take_text(in, good);
  good &= m.header.kind == MessageKind::ready;
  if (!good || !in.done()) return std::nullopt;
  return m;
}

[[nodiscard]] inline std::optional<Result> decode_result(
    std::span<std::byte const> frame) noexcept {
  ByteReader in(frame);
  bool good = true;
  Result m;
  m.header = detail::take_header(in, reply_bytes_max, good);
  m.reason = detail::take_reason(in, good);
  m.bytes = in.take<std::uint64_t>();
  m.text = detail::take_text(in, good);
  good &= m.header.kind == MessageKind::result;
  if (!good || !in.done()) return std::nullopt;
  return m;
}

/// Of the first data_header_bytes of a message; whether `bytes` really follow is for the caller to
/// check against the length that the transport reports.
[[nodiscard]] inline std::optional<DataHeader> decode_data_header(
    std::span<std::byte const> message) noexcept {
  if (message.size() < data_header_bytes) return std::nullopt;
  ByteReader in(message.first(data_header_bytes));
  bool good = in.take<std::uint32_t>() == detail::data_magic;
  good &= in.take<std::uint16_t>() == protocol_version;
  good &= in.take<std::uint16_t>() == data_header_bytes;
  DataHeader m;
  m.generation = Generation{in.take<std::uint32_t>()};
  m.chunk = ChunkIndex{in.take<std::uint32_t>()};
  m.transfer = TransferId{in.take<std::uint64_t>()};
  m.bytes = in.take<std::uint64_t>();
  m.digest = in.take<std::uint64_t>();
  while (in.left() > 0) good &= in.take<std::uint8_t>() == 0;
  if (!good) return std::nullopt;
  return m;
}

/// Room for the first descriptor segment in a CONTROL frame of `frame_bytes`.
[[nodiscard]] constexpr std::size_t control_segment_room(std::size_t frame_bytes) noexcept {
  auto const frame = std::min(frame_bytes, frame_bytes_max);
  return frame > detail::control_bytes ? frame - detail::control_bytes : 0;
}
/// Room for a segment in a DESCRIPTORS frame of `frame_bytes`.
[[nodiscard]] constexpr std::size_t descriptors_segment_room(std::size_t frame_bytes) noexcept {
  auto const frame = std::min(frame_bytes, frame_bytes_max);
  return frame > detail::descriptors_bytes ? frame - detail::descriptors_bytes : 0;
}

}  // namespace b10::wire
