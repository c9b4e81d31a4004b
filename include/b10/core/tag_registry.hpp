#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <b10/steady_clock.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// A set of tags other than control_tag: open addressing with linear probing, 8 bytes a slot, at
/// most half full. Removal moves later entries up, so that no tombstones pile up however long a
/// lane lives. Never shrinks.
class TagSet {
 public:
  TagSet() { rebuild(min_slots); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool contains(Tag tag) const noexcept { return slots_[find(tag)] == tag; }
  /// Room for `count` tags in all: up to there insert() allocates nothing.
  void reserve(std::size_t count) {
    if (count > slots_.size() / 2) rebuild(std::bit_ceil(2 * count));
  }
  /// False if it was there. The room must have been reserved.
  bool insert(Tag tag) noexcept {
    auto const at = find(tag);
    if (slots_[at] == tag) return false;
    slots_[at] = tag;
    ++size_;
    return true;
  }
  /// False if it was not there.
  bool erase(Tag tag) noexcept {
    auto hole = find(tag);
    if (slots_[hole] != tag || tag == empty) return false;
    for (auto at = next(hole); slots_[at] != empty; at = next(at)) {
      // An entry may move into the hole unless its own place lies behind the hole.
      auto const distance_home = (at - home(slots_[at])) & mask();
      auto const distance_hole = (at - hole) & mask();
      if (distance_home < distance_hole) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = empty;
    --size_;
    return true;
  }
  /// Starts loading the slot of a tag that is looked up soon: a large set does not fit the cache.
  void prefetch(Tag tag) const noexcept { __builtin_prefetch(&slots_[home(tag)]); }

 private:
  static constexpr Tag empty = control_tag;
  static constexpr std::size_t min_slots = 64;

  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }
  /// Multiply-shift with an odd factor nobody outside knows, so that a peer which picks its
  /// transfer ids cannot pile them up in one place.
  [[nodiscard]] std::size_t home(Tag tag) const noexcept {
    return static_cast<std::size_t>((to_integer(tag) * factor_) >> shift_);
  }
  [[nodiscard]] std::size_t find(Tag tag) const noexcept {
    auto at = home(tag);
    while (slots_[at] != tag && slots_[at] != empty) at = next(at);
    return at;
  }
  void rebuild(std::size_t slots) {
    auto const old = std::exchange(slots_, std::vector<Tag>(slots, empty));
    shift_ = 64 - std::countr_zero(slots);
    for (Tag tag : old) {
      if (tag != empty) slots_[find(tag)] = tag;
    }
  }
  [[nodiscard]] std::uint64_t draw_factor() const noexcept {
    auto const seed =
        static_cast<std::uint64_t>(steady_now().ns) ^ reinterpret_cast<std::uintptr_t>(this);
    auto x = (seed ^ (seed >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return (x ^ (x >> 33)) | 1;
  }

  std::uint64_t factor_ = draw_factor();
  int shift_ = 64;
  std::size_t size_ = 0;
  std::vector<Tag> slots_{};
};

/// Every tag in use or in quarantine on one lane. A tag is reserved before anything is posted under
/// it. Memory: 16 to 64 bytes for each tag at the peak. Not thread-safe: one lane.
class TagRegistry {
 public:
  /// All or nothing. False (and nothing reserved) if a tag repeats in the batch, is active, is
  /// quarantined, or is the control tag.
  [[nodiscard]] bool reserve(std::span<Tag const> tags) {
    active_.reserve(active_.size() + tags.size());
    quarantined_.reserve(quarantined_.size() + active_.size() + tags.size());
    for (std::size_t i = 0; i < tags.size(); ++i) {
      prefetch(active_, tags, i);
      prefetch(quarantined_, tags, i);
      if (tags[i] != control_tag && !quarantined_.contains(tags[i]) && active_.insert(tags[i]))
        continue;
      for (Tag tag : tags.first(i)) active_.erase(tag);
      return false;
    }
    return true;
  }
  /// Active -> gone. Only for tags that nothing is posted under any more. Others are left as they
  /// are.
  void release(std::span<Tag const> tags) noexcept {
    for (std::size_t i = 0; i < tags.size(); ++i) {
      prefetch(active_, tags, i);
      active_.erase(tags[i]);
    }
  }
  /// Active -> quarantined. Tags that are not active are left as they are. Allocates nothing.
  void quarantine(std::span<Tag const> tags) noexcept {
    for (std::size_t i = 0; i < tags.size(); ++i) {
      prefetch(active_, tags, i);
      prefetch(quarantined_, tags, i);
      if (active_.erase(tags[i])) quarantined_.insert(tags[i]);
    }
  }
  /// Quarantined -> gone, when their generation's worker has been destroyed. Others are left as
  /// they are.
  void forget(std::span<Tag const> tags) noexcept {
    for (std::size_t i = 0; i < tags.size(); ++i) {
      prefetch(quarantined_, tags, i);
      quarantined_.erase(tags[i]);
    }
  }
  [[nodiscard]] std::size_t active() const noexcept { return active_.size(); }
  [[nodiscard]] std::size_t quarantined() const noexcept { return quarantined_.size(); }

 private:
  static void prefetch(TagSet const& set, std::span<Tag const> tags, std::size_t i) noexcept {
    constexpr std::size_t ahead = 8;
    if (i + ahead < tags.size()) set.prefetch(tags[i + ahead]);
  }

  TagSet active_{};
  TagSet quarantined_{};
};

}  // namespace b10::core
