// One try of one request in decode: its blocks, its session, what befalls it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <b10/session/rx_session.hpp>

#include "block_manager.hpp"
#include "model.hpp"
#include "workload.hpp"

namespace mini {

/// Takes blocks for a whole prompt, but for a prefix that is cached here. One thread.
class DecodeBlocks {
 public:
  DecodeBlocks(Work const& work, std::uint64_t hash_tokens, ses::NodeShape const& shape,
               std::vector<BlockManager>& managers)
      : content_(work.request, hash_tokens),
        tokens_(work.request.tokens),
        shape_(shape),
        managers_(managers) {}

  /// False if there are too few free; nothing is held then.
  [[nodiscard]] bool take() {
    auto const held = held_blocks();
    for (std::size_t g = 0; g < managers_.size(); ++g) {
      auto const live = live_of(g);
      auto const kept = windowed(g) ? 0u : held;
      // A prefix that is taken over may be the room that was counted on.
      if (managers_[g].available() < live.size()) return false;
      first_.push_back(std::max(ses::BlockOrdinal{kept}, live.first));
    }
    held_tokens_ = std::uint64_t{held} * demo::block_tokens;
    for (std::size_t g = 0; g < managers_.size(); ++g) {
      auto const live = live_of(g);
      auto& slots = slots_.emplace_back(to_integer(live.end), ses::absent);
      for (auto i = to_integer(live.first); i < to_integer(first_[g]); ++i)
        slots[i] = managers_[g].find(content_.name(i)).value();
      for (auto i = to_integer(first_[g]); i < to_integer(live.end); ++i)
        slots[i] = managers_[g].take();
    }
    return true;
  }
  /// What is asked of prefill.
  [[nodiscard]] ses::RxSlice wanted(b10::LocalSpan aux) const {
    ses::RxSlice slice;
    for (std::uint16_t g = 0; g < managers_.size(); ++g) {
      auto const& geometry = shape_.groups[g].geometry;
      if (geometry.kind == ses::GroupKind::state) {
        slice.state.push_back({ses::GroupId{g}, slots_[g][0]});
        continue;
      }
      ses::BlockTable table(geometry.blocks(), tokens_);
      table.place(ses::BlockOrdinal{0}, slots_[g]);
      slice.groups.push_back({ses::GroupId{g}, std::move(table), first_[g]});
    }
    slice.aux = aux;
    return slice;
  }
  [[nodiscard]] std::uint64_t bytes_wanted() const {
    std::uint64_t bytes = 0;
    for (std::size_t g = 0; g < managers_.size(); ++g)
      bytes += (slots_[g].size() - to_integer(first_[g])) * managers_[g].slot_bytes();
    return bytes;
  }
  [[nodiscard]] std::uint64_t held_tokens() const { return held_tokens_; }

  /// Bytes that are not what the model computes, of all blocks that the next token attends to.
  [[nodiscard]] std::uint64_t wrong_bytes() {
    std::uint64_t wrong = 0;
    for_each([&](std::size_t g, std::uint32_t i, ses::SlotId slot) {
      auto const state = shape_.groups[g].geometry.kind == ses::GroupKind::state;
      wrong += managers_[g].differing(slot, state ? content_.state(g) : content_.block(g, i));
    });
    return wrong;
  }
  /// All has landed: later requests may use the whole blocks of this prompt.
  void publish() {
    for_each([&](std::size_t g, std::uint32_t i, ses::SlotId slot) {
      if (shape_.groups[g].geometry.kind == ses::GroupKind::paged && !windowed(g) &&
          i < content_.shared_blocks())
        managers_[g].publish(slot, content_.name(i));
    });
  }
  void drop() {
    for_each([&](std::size_t g, std::uint32_t, ses::SlotId slot) { managers_[g].drop(slot); });
    slots_.clear();
  }
  [[nodiscard]] std::uint64_t bytes_held() const {
    std::uint64_t bytes = 0;
    for_each(
        [&](std::size_t g, std::uint32_t, ses::SlotId) { bytes += managers_[g].slot_bytes(); });
    return bytes;
  }
  [[nodiscard]] ses::SlotId last_block() const { return slots_[0].back(); }
  [[nodiscard]] Content const& content() const { return content_; }

 private:
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t g = 0; g < slots_.size(); ++g)
      for (std::uint32_t i = 0; i < slots_[g].size(); ++i)
        if (slots_[g][i] != ses::absent) f(g, i, slots_[g][i]);
  }
  [[nodiscard]] bool windowed(std::size_t g) const {
    return shape_.groups[g].geometry.window > 0 ||
           shape_.groups[g].geometry.kind == ses::GroupKind::state;
  }
  [[nodiscard]] ses::OrdinalRange live_of(std::size_t g) const {
    auto const& geometry = shape_.groups[g].geometry;
    if (geometry.kind == ses::GroupKind::state) return {{}, ses::BlockOrdinal{1}};
    return ses::live_blocks(geometry.blocks(), tokens_);
  }
  [[nodiscard]] std::uint32_t held_blocks() const {
    auto const cached = [&](std::uint32_t i) {
      for (std::size_t g = 0; g < managers_.size(); ++g)
        if (!windowed(g) && !managers_[g].holds(content_.name(i))) return false;
      return true;
    };
    std::uint32_t held = 0;
    while (held < content_.shared_blocks() && cached(held)) ++held;
    return held;
  }

  Content content_;
  std::uint64_t tokens_;
  ses::NodeShape const& shape_;
  std::vector<BlockManager>& managers_;
  std::vector<ses::BlockOrdinal> first_{};         // by group: the first block asked for
  std::vector<std::vector<ses::SlotId>> slots_{};  // by group and ordinal
  std::uint64_t held_tokens_ = 0;
};

/// A try under way, or decoding.
template <class Session>
struct DecodeJob {
  Work const* work;
  unsigned try_number;
  Fate fate;
  DecodeBlocks blocks;
  std::shared_ptr<Session> session{};
  std::size_t aux_slot = 0;
  b10::Instant start{};
  b10::Instant cancel_at{std::numeric_limits<std::int64_t>::max()};
  bool cancelled = false;
  bool peer_killed = false;    ///< while it was under way
  std::uint64_t decoding = 0;  ///< requests that shall land before this one is through
};

}  // namespace mini
