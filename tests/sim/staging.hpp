#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <b10/copy/fake.hpp>
#include <b10/shared_views.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/staging.hpp>
#include <b10/staging/block_pool.hpp>

#include "sim/graveyard.hpp"

namespace campaign {

/// staging::Host with watched memory instead of mappings; pool and lease are the production ones.
class WatchedStaging {
 protected:
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
    bool share = false;  ///< for SharedWatchedStaging
    CopyEngine::Options copies{};
  };
  explicit WatchedStaging(Options const& o) : WatchedStaging(o, Graveyard::Owner::nobody) {}

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

 protected:
  WatchedStaging(Options const& o, Graveyard::Owner owner)
      : pool_({.buffer_bytes = o.buffer_bytes,
               .buffers = o.buffers,
               .slice_bytes = Slicing::slice_bytes(o.buffer_bytes)},
              b10::staging::Refill::inline_, {o.graveyard, owner}),
        copies_(o.copies, pool_.slice_bytes()) {}

  Pool pool_;
  CopyEngine copies_;
};
static_assert(b10::Staging<WatchedStaging>);

/// A peer's shared staging as seen from one process, which its copies may write.
class WatchedReach {
 public:
  WatchedReach(std::shared_ptr<Graveyard> graveyard, Graveyard::Owner owner,
               std::shared_ptr<b10::copy::FakeControl> copies)
      : graveyard_(std::move(graveyard)),
        owner_(owner),
        id_(graveyard_->next_reach()),
        copies_(std::move(copies)) {}
  WatchedReach(WatchedReach&&) noexcept = default;
  WatchedReach& operator=(WatchedReach&&) = delete;
  ~WatchedReach() {
    if (!graveyard_ || copies_->pending() == 0) return;
    auto const& blocks = graveyard_->shared();
    if (std::any_of(blocks.begin(), blocks.end(), [&](Graveyard::Block const& b) {
          return b.reach == id_ && copies_->touches_staging(b.memory, b.bytes);
        }))
      graveyard_->note_early_unmap();
  }
  [[nodiscard]] std::byte* at(std::uint64_t place, std::uint64_t bytes) {
    return graveyard_->at(owner_, place, bytes, id_);
  }

 private:
  std::shared_ptr<Graveyard> graveyard_;
  Graveyard::Owner owner_;
  std::uint32_t id_;
  std::shared_ptr<b10::copy::FakeControl> copies_;
};

/// staging::SharedHost with watched memory: senders write the receiver's views themselves, and one
/// that was stopped or held up in the middle writes them late.
class SharedWatchedStaging : public WatchedStaging {
 public:
  using Reach = WatchedReach;
  static constexpr std::string_view name = "staging::SharedWatched";
  static constexpr bool wire_reaches = true;

  explicit SharedWatchedStaging(Options const& o)
      : SharedWatchedStaging(o, o.share ? o.graveyard->next_owner() : Graveyard::Owner::nobody) {}

  [[nodiscard]] std::string offer() const {
    return owner_ == Graveyard::Owner::nobody ? std::string()
                                              : std::to_string(static_cast<std::uint32_t>(owner_));
  }
  [[nodiscard]] std::optional<Reach> reach(std::string_view offer, std::string& why) const {
    if (owner_ == Graveyard::Owner::nobody || offer.empty()) {
      why = "one of both shares no staging";
      return std::nullopt;
    }
    Graveyard::Owner const peer{static_cast<std::uint32_t>(std::stoul(std::string(offer)))};
    return std::optional<Reach>(std::in_place, graveyard_, peer, control_);
  }
  [[nodiscard]] std::uint64_t place(View const& view) const noexcept {
    return graveyard_->place(view.data()) + b10::staging::header_room;
  }

 private:
  SharedWatchedStaging(Options const& o, Graveyard::Owner owner)
      : WatchedStaging(o, owner),
        graveyard_(o.graveyard),
        control_(o.copies.control),
        owner_(owner) {}

  std::shared_ptr<Graveyard> graveyard_;
  std::shared_ptr<b10::copy::FakeControl> control_;
  Graveyard::Owner owner_;
};
static_assert(b10::SharesViews<SharedWatchedStaging>);

}  // namespace campaign
