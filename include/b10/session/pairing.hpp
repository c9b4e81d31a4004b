#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/block_table.hpp>
#include <b10/session/ids.hpp>

namespace b10::session {

struct BlockPair {
  SlotId source = absent;
  SlotId destination = absent;
  friend constexpr bool operator==(BlockPair const&, BlockPair const&) = default;
};

/// Consecutive blocks of one request, anchored by the ordinal of the first.
struct BlockRun {
  BlockOrdinal first{};
  std::span<SlotId const> slots{};
  /// absent outside the run.
  [[nodiscard]] SlotId operator[](BlockOrdinal ordinal) const noexcept {
    if (ordinal < first) return absent;
    auto const i = to_integer(ordinal) - to_integer(first);
    return i < slots.size() ? slots[i] : absent;
  }
};

/// Blocks of `chunk` that both sides have, at or after the receiver's start. Work is proportional
/// to the chunk. A run may reach past the chunk: it is read by ordinal. Nothing in common is an
/// empty answer; a chunk outside the table is an Error{invalid_request}.
[[nodiscard]] inline std::vector<BlockPair> pair_chunk(BlockRun source, OrdinalRange chunk,
                                                       BlockTable const& destination,
                                                       BlockOrdinal start = {}) {
  std::vector<BlockPair> pairs;
  if (chunk.empty()) return pairs;
  if (to_integer(chunk.end) > destination.size())
    throw Error(Reason::invalid_request,
                "blocks [" + std::to_string(to_integer(chunk.first)) + ", " +
                    std::to_string(to_integer(chunk.end)) + ") of a chunk reach past the " +
                    std::to_string(destination.size()) + " blocks of the prompt");
  for (auto i = std::max(chunk.first, start); i < chunk.end; i = BlockOrdinal{to_integer(i) + 1}) {
    BlockPair const pair{source[i], destination[i]};
    if (pair.source != absent && pair.destination != absent) pairs.push_back(pair);
  }
  return pairs;
}

/// The same for whole tables. Tables of different lengths mean that the two sides do not speak of
/// the same prompt: Error{invalid_request}.
[[nodiscard]] inline std::vector<BlockPair> pair_blocks(BlockTable const& source,
                                                        BlockTable const& destination,
                                                        BlockOrdinal start = {}) {
  if (source.size() != destination.size())
    throw Error(Reason::invalid_request,
                "the sender's table has " + std::to_string(source.size()) +
                    " blocks, the receiver's has " + std::to_string(destination.size()) +
                    ": both need ceil(prompt / tokens_per_block) of the same prompt");
  return pair_chunk({BlockOrdinal{0}, source.slots()},
                    {BlockOrdinal{0}, BlockOrdinal{source.size()}}, destination, start);
}

}  // namespace b10::session
