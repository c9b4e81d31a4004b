#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/copy/fake.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/staging.hpp>
#include <b10/staging/block_pool.hpp>

#include "sim/pattern.hpp"

namespace campaign {

/// Where blocks of staging come from and go to. A block that was given back to the system stays
/// here, painted, until the run ends: whoever still writes into it is found out.
class Graveyard {
 public:
  static constexpr Word grave_word = 0xEEEEEEEEEEEEEEEEu;

  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
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
  void bury(std::byte* memory, std::size_t bytes) {
    fill(memory, bytes / sizeof(Word) * sizeof(Word), grave_word);
    dead_.push_back({memory, bytes});
  }
  /// Blocks that were written after they had been given back. Ends the run: they may be used again.
  [[nodiscard]] unsigned disturbed() {
    unsigned found = 0;
    for (auto const& b : dead_) {
      bool same = true;
      for (std::size_t i = 0; i + sizeof(Word) <= b.bytes; i += sizeof(Word))
        same = same && load(b.memory + i) == grave_word;
      found += !same;
      spare_.push_back(b);
    }
    dead_.clear();
    return found;
  }

 private:
  struct Block {
    std::byte* memory;
    std::size_t bytes;
  };
  std::vector<std::unique_ptr<std::byte[]>> all_{};  ///< abandoned ones too
  std::vector<Block> dead_{};
  std::vector<Block> spare_{};
};

/// b10::staging::BlockMemory over a graveyard.
class GraveMemory {
 public:
  struct Options {
    std::shared_ptr<Graveyard> graveyard{};
  };
  explicit GraveMemory(Options const& options) : graveyard_(options.graveyard) {}
  [[nodiscard]] std::byte* allocate(std::size_t bytes) { return graveyard_->allocate(bytes); }
  void free(std::byte* memory, std::size_t bytes) noexcept { graveyard_->bury(memory, bytes); }

 private:
  std::shared_ptr<Graveyard> graveyard_;
};

/// staging::Host with watched memory instead of mappings; pool and lease are the production ones.
class WatchedStaging {
  using Pool = b10::staging::BlockPool<GraveMemory>;

 public:
  using Slicing = b10::slicing::Pipelined<1024, 4>;
  using CopyEngine = b10::copy::Fake;
  using View = Pool::View;
  using Quarantined = Pool::Quarantined;

  static constexpr std::string_view name = "staging::Watched";
  static constexpr b10::Placement placement = b10::Placement::host;

  struct Options {
    std::uint64_t buffer_bytes = 1024;
    std::uint64_t buffers = 8;
    std::shared_ptr<Graveyard> graveyard{};
    CopyEngine::Options copies{};
  };
  explicit WatchedStaging(Options const& o)
      : pool_({.buffer_bytes = o.buffer_bytes,
               .buffers = o.buffers,
               .slice_bytes = Slicing::slice_bytes(o.buffer_bytes)},
              b10::staging::Refill::inline_, {o.graveyard}),
        copies_(o.copies, pool_.slice_bytes()) {}

  [[nodiscard]] std::optional<View> try_acquire(b10::Use use) noexcept {
    return pool_.try_acquire(use);
  }
  void release(View&& view) noexcept { pool_.release(std::move(view)); }
  [[nodiscard]] Quarantined quarantine(View&& view) noexcept {
    return pool_.quarantine(std::move(view));
  }
  void drop(Quarantined&& held) noexcept { pool_.drop(std::move(held)); }
  void recycle(Quarantined&& held) noexcept { pool_.recycle(std::move(held)); }
  void abandon(Quarantined&& held) noexcept { pool_.abandon(std::move(held)); }
  void maintain() noexcept { pool_.maintain(); }
  [[nodiscard]] b10::StagingGauges gauges() const noexcept { return pool_.gauges(); }
  [[nodiscard]] std::uint64_t slice_bytes() const noexcept { return pool_.slice_bytes(); }
  [[nodiscard]] CopyEngine& copies() noexcept { return copies_; }

 private:
  Pool pool_;
  CopyEngine copies_;
};
static_assert(b10::Staging<WatchedStaging>);

}  // namespace campaign
