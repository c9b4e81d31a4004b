#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace b10 {

/// Names the two incarnations that talk: derived from the shared key and both incarnation ids.
enum class PairDomain : std::uint64_t {};
/// Counts the connections of one pair domain from 1; never reused, refuses to wrap.
enum class Generation : std::uint32_t {};
/// Names one WRITE within a pair domain; never reused, over all generations.
enum class TransferId : std::uint64_t {};
/// Position of a DATA chunk within its transfer, from 0.
enum class ChunkIndex : std::uint32_t {};
/// The engine's name for a request on the wire; 0 is "none" and refused.
enum class RequestId : std::uint64_t {};
/// This node's handle of a remote node; stable over reconnects of the same name.
enum class PeerId : std::uint32_t {};
/// Numbers the tries of CONTROL for one transfer, from 0.
enum class Attempt : std::uint16_t {};
/// A tag that the transport matches in full (64 bits).
enum class Tag : std::uint64_t {};
enum class MessageKind : std::uint8_t {
  control,
  ready,
  result,
  data,
  descriptors,
  abort,
  places,
  note,
};

/// CUDA device ordinal, or `host`.
enum class Device : std::int32_t { host = -1 };

/// Reserved; no identity ever derives it.
inline constexpr Tag control_tag{0};

template <class E>
  requires std::is_enum_v<E>
[[nodiscard]] constexpr auto to_integer(E e) noexcept {
  return static_cast<std::underlying_type_t<E>>(e);
}

/// Bytes of this process. Only these can be read or written here.
struct LocalSpan {
  std::byte* address = nullptr;
  std::uint64_t bytes = 0;
  Device device = Device::host;
  friend constexpr bool operator==(LocalSpan const&, LocalSpan const&) = default;
};

/// Bytes of the peer: a number to be sent, never a pointer to follow here.
struct RemoteSpan {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Device device = Device::host;
  friend constexpr bool operator==(RemoteSpan const&, RemoteSpan const&) = default;
};

/// How a peer names bytes of this process; what a receiver's engine ships to the sender's.
[[nodiscard]] inline RemoteSpan as_remote(LocalSpan const& s) noexcept {
  return {reinterpret_cast<std::uintptr_t>(s.address), s.bytes, s.device};
}

}  // namespace b10
