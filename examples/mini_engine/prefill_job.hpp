// One request in prefill: its blocks, how far it is computed, and its session.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <b10/session/kv_slice.hpp>
#include <b10/session/prefill_slicer.hpp>

#include "block_manager.hpp"
#include "channel.hpp"
#include "model.hpp"
#include "timeline.hpp"

namespace mini {

/// Blocks are taken as chunks need them and stay this request's until both the computing and the
/// sending of them are over. One thread.
template <class Session>
class PrefillJob {
 public:
  PrefillJob(Order order, std::uint64_t hash_tokens, std::shared_ptr<Session> session,
             ses::NodeShape const& shape, std::vector<BlockManager>& managers)
      : order_(std::move(order)),
        content_(order_.request, hash_tokens),
        session_(std::move(session)),
        shape_(shape),
        managers_(managers) {
    for (auto const& g : shape_.groups) {
      bool const paged = g.geometry.kind == ses::GroupKind::paged;
      blocks_.emplace_back(paged ? ses::block_count(g.geometry.blocks(), tokens()) : 1,
                           ses::absent);
      if (paged) paged_.push_back(g.geometry.blocks());
    }
    reuse();
    slicer_.emplace(
        ses::PrefillSlicer::Options{tokens(), paged_, reused_tokens_, /*strict=*/false});
    computed_ = reused_tokens_;
  }

  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] Content const& content() const { return content_; }
  [[nodiscard]] std::uint64_t tokens() const { return order_.request.tokens; }
  [[nodiscard]] std::uint64_t reused_tokens() const { return reused_tokens_; }
  [[nodiscard]] unsigned chunks() const { return chunks_; }
  [[nodiscard]] bool computed() const { return computed_ == tokens(); }
  [[nodiscard]] bool to_be_cancelled() const { return chunks_ >= order_.cancel_at; }
  [[nodiscard]] bool stalled() const { return chunks_ >= order_.stall_at; }

  /// The cached prefix, to be sent before anything is computed.
  [[nodiscard]] std::optional<typename Session::Slice> early_prefix() {
    auto const chunk = slicer_->early_prefix();
    if (!chunk) return std::nullopt;
    return slice_of(*chunk);
  }

  struct Chunk {
    std::uint64_t tokens = 0;
    std::vector<std::pair<std::size_t, demo::Page>> pages{};  ///< group and page
    typename Session::Slice slice{};
  };
  /// Takes blocks for the next tokens, or says that there are too few.
  [[nodiscard]] std::optional<Chunk> next_chunk(std::uint64_t tokens_max) {
    auto const end = std::min(tokens(), computed_ + tokens_max);
    bool const last = end == tokens();
    if (!enough_blocks(end, last)) return std::nullopt;
    Chunk out{end - computed_};
    for (std::size_t g = 0; g < blocks_.size(); ++g) {
      auto const& geometry = shape_.groups[g].geometry;
      if (geometry.kind == ses::GroupKind::state) {
        if (!last) continue;
        blocks_[g][0] = managers_[g].take();
        out.pages.emplace_back(g, managers_[g].page(blocks_[g][0], content_.state(g)));
        continue;
      }
      auto const range = touched(geometry.blocks(), end);
      for (auto i = to_integer(range.first); i < to_integer(range.end); ++i) {
        auto& slot = blocks_[g][i];
        if (slot == ses::absent) slot = managers_[g].take();
        // A block that is not whole yet holds what must never be sent.
        if (last || (i + 1) * std::uint64_t{geometry.tokens_per_block} <= end)
          out.pages.emplace_back(g, managers_[g].page(slot, content_.block(g, i)));
      }
    }
    out.slice = slice_of(slicer_->chunk({ses::TokenPos{computed_}, ses::TokenPos{end}}));
    computed_ = end;
    ++chunks_;
    if (last) add_state(out.slice);
    return out;
  }

  void step_begins() { ++steps_; }
  void step_ends(Event const& e) {
    --steps_;
    report_.events.push_back(e);
  }
  void transferred(Event const& e) { report_.events.push_back(e); }
  [[nodiscard]] bool computing() const { return steps_ > 0; }

  /// Gives the blocks back; the whole ones with a name stay as a prefix for others. Only when
  /// nobody computes or sends them any more.
  void release(bool forget_one) {
    if (std::exchange(released_, true)) return;
    for (std::size_t g = 0; g < blocks_.size(); ++g)
      for (std::uint32_t i = 0; i < blocks_[g].size(); ++i) {
        auto const slot = blocks_[g][i];
        if (slot == ses::absent || std::exchange(forget_one, false)) continue;
        auto const& geometry = shape_.groups[g].geometry;
        if (geometry.kind == ses::GroupKind::paged && geometry.window == 0 &&
            i < content_.shared_blocks() &&
            (i + 1) * std::uint64_t{geometry.tokens_per_block} <= computed_)
          managers_[g].publish(slot, content_.name(i));
        managers_[g].drop(slot);
      }
  }
  [[nodiscard]] Report report() const {
    auto report = report_;
    report.reused_tokens = reused_tokens_;
    return report;
  }

 private:
  /// Takes over what is cached of the prompt's front, in all groups without a window. A window is
  /// always computed anew, so no more than lies before it can be reused; and one token is left.
  void reuse() {
    std::uint32_t whole = static_cast<std::uint32_t>((tokens() - 1) / demo::block_tokens);
    whole = std::min(whole, content_.shared_blocks());
    for (std::size_t g = 0; g < blocks_.size(); ++g) {
      auto const& geometry = shape_.groups[g].geometry;
      if (geometry.kind != ses::GroupKind::paged)
        whole = 0;  // recurrent state cannot be resumed in the middle
      else if (geometry.window > 0)
        whole = std::min(whole, to_integer(ses::first_live(geometry.blocks(), tokens())));
    }
    auto const cached = [&](std::uint32_t i) {
      for (std::size_t g = 0; g < blocks_.size(); ++g)
        if (shape_.groups[g].geometry.window == 0 && !managers_[g].holds(content_.name(i)))
          return false;
      return true;
    };
    std::uint32_t held = 0;
    while (held < whole && cached(held)) ++held;
    for (std::size_t g = 0; g < blocks_.size(); ++g)
      for (std::uint32_t i = 0; i < held && shape_.groups[g].geometry.window == 0; ++i)
        blocks_[g][i] = managers_[g].find(content_.name(i)).value();
    reused_tokens_ = std::uint64_t{held} * demo::block_tokens;
  }
  /// Blocks of a group that the tokens up to `end` lie in, beginning where the computed ones end.
  [[nodiscard]] ses::OrdinalRange touched(ses::BlockShape shape, std::uint64_t end) const {
    auto const first = static_cast<std::uint32_t>(computed_ / shape.tokens_per_block);
    auto const blocks =
        static_cast<std::uint32_t>((end + shape.tokens_per_block - 1) / shape.tokens_per_block);
    return {std::max(ses::BlockOrdinal{first}, ses::first_live(shape, tokens())),
            ses::BlockOrdinal{blocks}};
  }
  [[nodiscard]] bool enough_blocks(std::uint64_t end, bool last) const {
    for (std::size_t g = 0; g < blocks_.size(); ++g) {
      auto const& geometry = shape_.groups[g].geometry;
      std::size_t const needed =
          geometry.kind == ses::GroupKind::paged ? touched(geometry.blocks(), end).size() : last;
      if (managers_[g].available() < needed) return false;
    }
    return true;
  }
  [[nodiscard]] typename Session::Slice slice_of(ses::ChunkBlocks const& chunk) const {
    typename Session::Slice s;
    s.id = chunk.id;
    s.tokens = chunk.tokens;
    s.is_last = chunk.is_last;
    std::size_t paged = 0;
    for (std::uint16_t g = 0; g < blocks_.size(); ++g)
      if (shape_.groups[g].geometry.kind == ses::GroupKind::paged)
        s.groups.push_back(ses::cut(ses::GroupId{g}, chunk.groups[paged++],
                                    [&](auto i) { return blocks_[g][to_integer(i)]; }));
    return s;
  }
  void add_state(typename Session::Slice& s) const {
    for (std::uint16_t g = 0; g < blocks_.size(); ++g)
      if (shape_.groups[g].geometry.kind == ses::GroupKind::state)
        s.state.push_back({ses::GroupId{g}, blocks_[g][0]});
  }

  Order order_;
  Content content_;
  std::shared_ptr<Session> session_;
  ses::NodeShape const& shape_;
  std::vector<BlockManager>& managers_;
  std::vector<ses::BlockShape> paged_{};
  std::vector<std::vector<ses::SlotId>> blocks_{};  // by group and ordinal
  std::optional<ses::PrefillSlicer> slicer_{};
  std::uint64_t reused_tokens_ = 0;
  std::uint64_t computed_ = 0;  // tokens whose step was launched
  unsigned chunks_ = 0;
  unsigned steps_ = 0;  // launched, not ended
  bool released_ = false;
  Report report_{};
};

}  // namespace mini
