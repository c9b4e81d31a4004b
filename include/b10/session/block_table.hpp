#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/ids.hpp>

namespace b10::session {

/// What decides which blocks of a paged layer group a prompt has.
struct BlockShape {
  std::uint32_t tokens_per_block = 0;
  std::uint64_t window = 0;  ///< sliding window in tokens; 0: full attention
};

/// Longest prompt accepted [tokens]; bounds what a peer can make this node allocate.
inline constexpr std::uint64_t prompt_tokens_max = std::uint64_t{1} << 26;

/// ceil(prompt / block). Throws Error{invalid_request} naming value and limit.
[[nodiscard]] inline std::uint32_t block_count(BlockShape shape, std::uint64_t prompt_tokens) {
  if (shape.tokens_per_block == 0)
    throw Error(Reason::invalid_request, "tokens_per_block is 0, it must be at least 1");
  if (prompt_tokens == 0 || prompt_tokens > prompt_tokens_max)
    throw Error(Reason::invalid_request, "a prompt of " + std::to_string(prompt_tokens) +
                                             " tokens, allowed are 1 to " +
                                             std::to_string(prompt_tokens_max));
  return static_cast<std::uint32_t>((prompt_tokens + shape.tokens_per_block - 1) /
                                    shape.tokens_per_block);
}

/// The first block that the next token still attends to: max(0, (prompt + 1 - window) / block).
/// Earlier ones are evicted on every rank and never move.
[[nodiscard]] inline BlockOrdinal first_live(BlockShape shape,
                                             std::uint64_t prompt_tokens) noexcept {
  if (shape.window == 0 || prompt_tokens + 1 <= shape.window) return BlockOrdinal{0};
  return BlockOrdinal{
      static_cast<std::uint32_t>((prompt_tokens + 1 - shape.window) / shape.tokens_per_block)};
}

[[nodiscard]] inline OrdinalRange live_blocks(BlockShape shape, std::uint64_t prompt_tokens) {
  BlockOrdinal const end{block_count(shape, prompt_tokens)};  // checks the shape first
  return {first_live(shape, prompt_tokens), end};
}

/// For one layer group and request: entry i is the slot of logical block i, or absent. Always
/// ceil(prompt / block) entries. A position is stated, never inferred from a count.
class BlockTable {
 public:
  BlockTable() = default;
  /// All absent.
  BlockTable(BlockShape shape, std::uint64_t prompt_tokens)
      : live_(live_blocks(shape, prompt_tokens)), slots_(to_integer(live_.end), absent) {}

  /// Sets blocks first, first + 1, ... Slots past the prompt (speculative overhang) and those of
  /// evicted blocks are dropped; neither shifts the others.
  BlockTable& place(BlockOrdinal first, std::span<SlotId const> slots) noexcept {
    auto const wanted = live_;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      auto const ordinal = std::uint64_t{to_integer(first)} + i;
      if (ordinal >= to_integer(wanted.end)) break;
      if (ordinal >= to_integer(wanted.first)) slots_[ordinal] = slots[i];
    }
    return *this;
  }

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(slots_.size());
  }
  /// absent outside the table.
  [[nodiscard]] SlotId operator[](BlockOrdinal ordinal) const noexcept {
    return to_integer(ordinal) < slots_.size() ? slots_[to_integer(ordinal)] : absent;
  }
  [[nodiscard]] std::span<SlotId const> slots() const noexcept { return slots_; }
  [[nodiscard]] OrdinalRange live() const noexcept { return live_; }
  /// Blocks at or after `start` that have a slot.
  [[nodiscard]] std::uint32_t present(BlockOrdinal start = {}) const noexcept {
    std::uint32_t count = 0;
    for (auto i = to_integer(start); i < size(); ++i) count += slots_[i] != absent;
    return count;
  }
  friend bool operator==(BlockTable const& a, BlockTable const& b) noexcept {
    return a.slots_ == b.slots_;
  }

 private:
  OrdinalRange live_{};
  std::vector<SlotId> slots_{};
};

}  // namespace b10::session
