#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/block_table.hpp>
#include <b10/session/ids.hpp>

namespace b10::session {

/// What one chunk sends: blocks by layer group, in the order of the slicer's groups.
struct ChunkBlocks {
  SenderSliceId id{};
  TokenRange tokens{};
  bool is_last = false;
  std::vector<OrdinalRange> groups{};
};

/// Turns the bounds of a chunked prefill into blocks to send. Boundaries are whole blocks: both
/// ends are rounded down, only the last one up, so that each block goes once, when it is complete.
/// Blocks outside a group's window never go. One per request; not thread-safe.
class PrefillSlicer {
 public:
  struct Options {
    std::uint64_t prompt_tokens = 0;
    std::vector<BlockShape> groups{};
    /// Tokens that the prefill side's prefix cache holds: the first chunk begins there. They are
    /// sent all the same, with the first chunk or by early_prefix().
    std::uint64_t reused_tokens = 0;
    /// The engine promises that all bounds but the last are multiples of each block size; a broken
    /// promise is an error that names the numbers.
    bool strict = false;
  };

  explicit PrefillSlicer(Options options) : options_(std::move(options)) {
    if (options_.groups.empty()) refuse("a slicer needs at least one layer group");
    if (options_.reused_tokens >= options_.prompt_tokens)
      refuse("reused_tokens is " + std::to_string(options_.reused_tokens) +
             ", it must be less than the prompt's " + std::to_string(options_.prompt_tokens));
    for (auto const& group : options_.groups)
      next_.push_back(live_blocks(group, options_.prompt_tokens).first);
    computed_ = options_.reused_tokens;
  }

  /// The whole blocks of the reused prefix, to be sent before the first forward pass; the first
  /// chunk does not repeat them. Nothing if there is no whole block, or if chunks were made
  /// already.
  [[nodiscard]] std::optional<ChunkBlocks> early_prefix() {
    if (begun_) return std::nullopt;
    auto const before = next_;
    auto chunk = take(TokenRange{TokenPos{0}, TokenPos{options_.reused_tokens}}, false);
    if (before == next_) return std::nullopt;
    begun_ = true;
    chunk.id = SenderSliceId{slices_++};
    return chunk;
  }

  /// The blocks that are complete once `tokens` are computed. Chunks come in order without gaps;
  /// Error{invalid_request} otherwise. A chunk may complete no block.
  [[nodiscard]] ChunkBlocks chunk(TokenRange tokens) {
    auto const begin = to_integer(tokens.begin), end = to_integer(tokens.end);
    auto const bounds = "chunk (" + std::to_string(begin) + ", " + std::to_string(end) + ")";
    if (begin != computed_)
      refuse(bounds + " does not begin at token " + std::to_string(computed_) +
             ", where the last one ended");
    if (end <= begin) refuse(bounds + " is empty");
    if (end > options_.prompt_tokens)
      refuse(bounds + " reaches past the prompt of " + std::to_string(options_.prompt_tokens));
    bool const last = end == options_.prompt_tokens;
    if (options_.strict) require_whole_blocks(bounds, begin, end, last);
    computed_ = end;
    begun_ = true;
    auto out = take(tokens, last);
    out.id = SenderSliceId{slices_++};
    return out;
  }

  [[nodiscard]] bool done() const noexcept { return computed_ == options_.prompt_tokens; }

 private:
  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  void require_whole_blocks(std::string const& bounds, std::uint64_t begin, std::uint64_t end,
                            bool last) const {
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      auto const block = options_.groups[g].tokens_per_block;
      for (auto const bound : {begin, last ? 0 : end})
        if (bound % block != 0)
          refuse(bounds + ": " + std::to_string(bound) + " is no multiple of the " +
                 std::to_string(block) + " tokens per block of layer group " + std::to_string(g));
    }
  }
  /// All blocks from where the last chunk stopped up to the end of `tokens`.
  ChunkBlocks take(TokenRange tokens, bool last) {
    ChunkBlocks out{{}, tokens, last, {}};
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      auto const& shape = options_.groups[g];
      auto const whole = to_integer(tokens.end) / shape.tokens_per_block;
      BlockOrdinal const end{last ? block_count(shape, options_.prompt_tokens)
                                  : static_cast<std::uint32_t>(whole)};
      OrdinalRange const blocks{next_[g], std::max(next_[g], end)};
      out.groups.push_back(blocks);
      next_[g] = blocks.end;
    }
    return out;
  }

  Options options_;
  std::vector<BlockOrdinal> next_{};  // by group: the first block not sent yet
  std::uint64_t computed_ = 0;        // tokens
  std::uint32_t slices_ = 0;
  bool begun_ = false;
};

}  // namespace b10::session
