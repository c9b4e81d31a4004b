// The blocks of one layer group: memory, a free list, and a cache of prefixes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <b10/session/geometry.hpp>
#include <b10/session/ids.hpp>

#include "common/kv_memory.hpp"
#include "common/pattern.hpp"
#include "model.hpp"

namespace mini {

/// Blocks freed last are taken first, which is where a late write does most harm. A free block
/// holds a canary, looked at when the block is taken: a write that comes after the block was freed
/// shows. Blocks in use are counted, so that several requests share a prefix; those with a name
/// stay when nobody uses them, until their place is needed. One thread.
class BlockManager {
 public:
  /// `memory` begins and ends with a margin that nobody writes.
  BlockManager(std::unique_ptr<demo::KvMemory> memory, std::uint64_t slot_bytes,
               std::uint32_t slots, std::uint64_t seed)
      : memory_(std::move(memory)), slot_bytes_(slot_bytes), slots_(slots), free_(slots) {
    std::iota(free_.begin(), free_.end(), 0u);
    std::shuffle(free_.begin(), free_.end(), std::mt19937_64(seed));
    memory_->fill(0, 2 * margin + slot_bytes * slots, demo::canary);
    memory_->settle();
  }

  static constexpr std::uint64_t margin = 64 * 1024;

  [[nodiscard]] ses::Pool pool() const {
    return {reinterpret_cast<std::uint64_t>(memory_->base()) + margin, slot_bytes_, count(),
            memory_->device()};
  }
  [[nodiscard]] b10::LocalSpan region() const {
    return {memory_->base() + margin, slot_bytes_ * slots_.size(), memory_->device()};
  }
  [[nodiscard]] demo::Page page(ses::SlotId slot, demo::Pattern content) const {
    return {offset(slot), slot_bytes_, content};
  }
  [[nodiscard]] std::uint64_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] demo::KvMemory& memory() const { return *memory_; }
  /// Free now, or as soon as cached ones make room.
  [[nodiscard]] std::size_t available() const { return free_.size() + unused_.size(); }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }

  /// A block of one's own. Look at available() first.
  [[nodiscard]] ses::SlotId take() {
    if (free_.empty()) evict();
    auto const slot = free_.back();
    free_.pop_back();
    look_at_canary(slot);
    slots_[slot].users = 1;
    return ses::SlotId{slot};
  }
  void drop(ses::SlotId id) {
    auto const slot = to_integer(id);
    auto& s = slots_[slot];
    if (--s.users > 0) return;
    if (s.name)
      unused_.emplace(s.last_use = ++uses_, slot);
    else
      free(slot);
  }
  /// A cached block of that name, used from now on by one more.
  [[nodiscard]] std::optional<ses::SlotId> find(std::uint64_t name) {
    auto const it = named_.find(name);
    if (it == named_.end()) return std::nullopt;
    if (slots_[it->second].users++ == 0) unused_.erase(slots_[it->second].last_use);
    return ses::SlotId{it->second};
  }
  [[nodiscard]] bool holds(std::uint64_t name) const { return named_.count(name) > 0; }
  /// The block is whole, and may stand for every other of that name.
  void publish(ses::SlotId id, std::uint64_t name) {
    auto& s = slots_[to_integer(id)];
    if (!s.name && named_.emplace(name, to_integer(id)).second) s.name = name;
  }

  /// Bytes of a block that are not as they should be.
  [[nodiscard]] std::uint64_t differing(ses::SlotId slot, demo::Pattern const& content) {
    auto const bytes = memory_->read(offset(slot), slot_bytes_, buffer_);
    if (!content.difference(bytes)) return 0;
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != content.byte(i);
    return wrong;
  }
  /// Damages one byte of a block; for tests of the above.
  void damage(ses::SlotId slot) {
    auto const at = offset(slot) + slot_bytes_ / 2;
    auto const byte = memory_->read(at, 1, buffer_)[0];
    memory_->fill(at, 1, byte ^ std::byte{1});
    memory_->settle();
  }

  struct Audit {
    std::uint64_t leaked = 0;       ///< blocks that nobody gave back
    std::uint64_t wrong_bytes = 0;  ///< in blocks that were free, or around the pool, ever
  };
  /// When nobody should hold anything: empties the cache and looks at all that is free.
  [[nodiscard]] Audit audit() {
    while (!unused_.empty()) evict();
    for (auto const slot : free_) look_at_canary(slot);
    for (auto const at : {std::uint64_t{0}, margin + slot_bytes_ * slots_.size()})
      wrong_free_ += not_canaries(at, margin);
    return {slots_.size() - free_.size(), wrong_free_};
  }

 private:
  struct Slot {
    std::uint32_t users = 0;
    std::optional<std::uint64_t> name{};
    std::uint64_t last_use = 0;
  };
  [[nodiscard]] std::uint64_t offset(ses::SlotId slot) const {
    return margin + to_integer(slot) * slot_bytes_;
  }
  void free(std::uint32_t slot) {
    memory_->fill(offset(ses::SlotId{slot}), slot_bytes_, demo::canary);
    memory_->settle();
    free_.push_back(slot);
  }
  void evict() {
    auto const slot = unused_.begin()->second;  // the one that was used longest ago
    unused_.erase(unused_.begin());
    named_.erase(*slots_[slot].name);
    slots_[slot].name.reset();
    free(slot);
  }
  void look_at_canary(std::uint32_t slot) {
    wrong_free_ += not_canaries(offset(ses::SlotId{slot}), slot_bytes_);
  }
  [[nodiscard]] std::uint64_t not_canaries(std::uint64_t at, std::uint64_t bytes) {
    auto const view = memory_->read(at, bytes, buffer_);
    if (!demo::not_canary(view)) return 0;
    return static_cast<std::uint64_t>(
        std::count_if(view.begin(), view.end(), [](auto b) { return b != demo::canary; }));
  }

  std::unique_ptr<demo::KvMemory> memory_;
  std::uint64_t slot_bytes_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> named_{};
  std::map<std::uint64_t, std::uint32_t> unused_{};  // cached blocks without users, by last use
  std::uint64_t uses_ = 0;
  std::uint64_t wrong_free_ = 0;
  std::vector<std::byte> buffer_{};
};

}  // namespace mini
