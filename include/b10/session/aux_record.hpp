#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/outcome.hpp>
#include <b10/session/ids.hpp>

namespace b10::session {

/// Bytes before the payload of an AUX record: request, receiver slice, payload length, reserved.
inline constexpr std::size_t aux_header_bytes = 24;
inline constexpr std::uint32_t aux_magic = 0x41303142;  // "B10A"

/// A fixed-size slot's content: whose it is, how long, then the payload (first tokens, counts). The
/// identity makes a slot that was used again tell itself from the one that is waited for.
[[nodiscard]] inline std::vector<std::byte> encode_aux(RequestId request, ReceiverSliceId slice,
                                                       std::span<std::byte const> payload,
                                                       std::uint32_t record_bytes) {
  if (payload.size() + aux_header_bytes > record_bytes)
    throw Error(
        Reason::invalid_request,
        "an AUX payload of " + std::to_string(payload.size()) + " bytes; a record of " +
            std::to_string(record_bytes) + " (NodeOptions::aux) holds " +
            std::to_string(record_bytes - std::min<std::size_t>(record_bytes, aux_header_bytes)));
  std::vector<std::byte> record(record_bytes);
  ByteWriter out(record);
  out.put(aux_magic);
  out.put(to_integer(slice));
  out.put(to_integer(request));
  out.put(static_cast<std::uint64_t>(payload.size()));
  out.put(payload);
  return record;
}

/// The payload, or nothing if the record is not this request's or its length does not fit.
[[nodiscard]] inline std::optional<std::vector<std::byte>> decode_aux(
    RequestId request, ReceiverSliceId slice, std::span<std::byte const> record) {
  ByteReader in(record);
  bool const ours = in.take<std::uint32_t>() == aux_magic &&
                    in.take<std::uint32_t>() == to_integer(slice) &&
                    in.take<std::uint64_t>() == to_integer(request);
  auto const payload = in.take_bytes(in.take<std::uint64_t>());
  if (!ours || !in.ok()) return std::nullopt;
  return std::vector<std::byte>(payload.begin(), payload.end());
}

}  // namespace b10::session
