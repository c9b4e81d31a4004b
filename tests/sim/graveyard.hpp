#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/pattern.hpp"

namespace campaign {

/// Where blocks of staging come from and go to. A block that was given back to the system stays
/// here, painted, until the run ends, and is not given out again: whoever still writes into it is
/// found out. Blocks of an owner that shares them have places, by which peers reach them; there a
/// late write is no fault, as it is none in the hole of a memfd, so long as nobody reads it.
class Graveyard {
 public:
  static constexpr Word grave_word = 0xEEEEEEEEEEEEEEEEu;
  enum class Owner : std::uint32_t { nobody };
  struct Block {
    std::byte* memory;
    std::size_t bytes;
    Owner owner = Owner::nobody;
    std::uint32_t reach = 0;  ///< the mapping by which a peer was last given it; 0: none
  };

  /// A process that shares its blocks.
  [[nodiscard]] Owner next_owner() { return Owner{++owners_}; }
  /// A mapping of such blocks in another process.
  [[nodiscard]] std::uint32_t next_reach() { return ++reaches_; }

  [[nodiscard]] std::byte* allocate(std::size_t bytes, Owner owner) {
    Block b{take(bytes), bytes, owner};
    if (owner != Owner::nobody) {
      place_of_[b.memory] = shared_.size();
      shared_.push_back(b);
    }
    return b.memory;
  }
  void bury(std::byte* memory, std::size_t bytes) {
    fill(memory, bytes / sizeof(Word) * sizeof(Word), grave_word);
    dead_.push_back({memory, bytes});
  }

  /// The same in every repetition of a run, which an address would not be.
  [[nodiscard]] std::uint64_t place(std::byte const* memory) const {
    return (place_of_.at(memory) + 1) * place_stride;
  }
  /// Null unless all of it lies in one block of that owner.
  [[nodiscard]] std::byte* at(Owner owner, std::uint64_t place, std::uint64_t bytes,
                              std::uint32_t reach) {
    auto const index = place / place_stride - 1, offset = place % place_stride;
    if (place < place_stride || index >= shared_.size()) return nullptr;
    Block& b = shared_[index];
    if (b.owner != owner || offset > b.bytes || bytes > b.bytes - offset) return nullptr;
    b.reach = reach;
    return b.memory + offset;
  }
  [[nodiscard]] std::vector<Block> const& shared() const { return shared_; }
  /// A peer has let go of a mapping that one of its copies may still write.
  void note_early_unmap() { ++unmapped_early_; }

  struct Report {
    unsigned disturbed;  ///< blocks that were written after they had been given back
    unsigned unmapped_early;
  };
  /// Ends the run: blocks may be used again.
  [[nodiscard]] Report end_run() {
    Report r{0, std::exchange(unmapped_early_, 0)};
    for (auto const& b : dead_) {
      auto const it = place_of_.find(b.memory);
      bool same = it != place_of_.end() && shared_[it->second].reach != 0;
      if (!same) same = still_dead(b);
      r.disturbed += !same;
      spare_.push_back(b);
    }
    dead_.clear();
    shared_.clear();
    place_of_.clear();
    owners_ = reaches_ = 0;
    return r;
  }

 private:
  static constexpr std::uint64_t place_stride = 65'536;

  [[nodiscard]] std::byte* take(std::size_t bytes) {
    for (auto& b : spare_) {
      if (b.bytes != bytes) continue;
      std::swap(b, spare_.back());
      auto* const memory = spare_.back().memory;
      spare_.pop_back();
      return memory;
    }
    all_.push_back(std::make_unique<std::byte[]>(bytes));
    return all_.back().get();
  }
  [[nodiscard]] static bool still_dead(Block const& b) {
    for (std::size_t i = 0; i + sizeof(Word) <= b.bytes; i += sizeof(Word))
      if (load(b.memory + i) != grave_word) return false;
    return true;
  }

  std::vector<std::unique_ptr<std::byte[]>> all_{};  ///< abandoned ones too
  std::vector<Block> dead_{};
  std::vector<Block> spare_{};
  std::vector<Block> shared_{};  ///< by place
  std::unordered_map<std::byte const*, std::size_t> place_of_{};
  std::uint32_t owners_ = 0;
  std::uint32_t reaches_ = 0;
  unsigned unmapped_early_ = 0;
};

/// b10::staging::BlockMemory over a graveyard.
class GraveMemory {
 public:
  struct Options {
    std::shared_ptr<Graveyard> graveyard{};
    Graveyard::Owner owner = Graveyard::Owner::nobody;
  };
  explicit GraveMemory(Options const& options) : options_(options) {}
  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    return options_.graveyard->allocate(bytes, options_.owner);
  }
  void free(std::byte* memory, std::size_t bytes) noexcept {
    options_.graveyard->bury(memory, bytes);
  }

 private:
  Options options_;
};

}  // namespace campaign
