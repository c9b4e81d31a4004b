#pragma once

#include <algorithm>
#include <cstdint>

#include <b10/types.hpp>

namespace b10::session {

/// Logical position of a block within a request's prompt, per layer group, from 0.
enum class BlockOrdinal : std::uint32_t {};
/// Physical place in a layer group's pool.
enum class SlotId : std::uint32_t {};
/// Position of a token within the prompt, from 0.
enum class TokenPos : std::uint64_t {};
/// The sender's name of a slice: 0, 1, 2 ... in the order of send().
enum class SenderSliceId : std::uint32_t {};
/// The receiver's name of its one task for a request. Never the same number space as the sender's.
enum class ReceiverSliceId : std::uint32_t {};
/// A layer group: layers that share block size, window and pool. Index into the node's geometry.
enum class GroupId : std::uint16_t {};
/// A layer of the whole model.
enum class LayerId : std::uint32_t {};

/// No block there: evicted by a window, not allocated yet, held by the receiver already, or outside
/// this chunk.
inline constexpr SlotId absent{0xffff'ffffu};

/// Blocks [first, end).
struct OrdinalRange {
  BlockOrdinal first{};
  BlockOrdinal end{};
  [[nodiscard]] constexpr bool empty() const noexcept { return end <= first; }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept {
    return empty() ? 0 : to_integer(end) - to_integer(first);
  }
  friend constexpr bool operator==(OrdinalRange const&, OrdinalRange const&) = default;
};

[[nodiscard]] constexpr OrdinalRange intersection(OrdinalRange a, OrdinalRange b) noexcept {
  auto const first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.end, b.end))};
}

/// Tokens [begin, end).
struct TokenRange {
  TokenPos begin{};
  TokenPos end{};
  friend constexpr bool operator==(TokenRange const&, TokenRange const&) = default;
};

}  // namespace b10::session
