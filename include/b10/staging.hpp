#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <b10/copy_engine.hpp>
#include <b10/policy.hpp>
#include <b10/slicing.hpp>

namespace b10 {

enum class Placement : std::uint8_t { host, pinned_host, device };

/// Which side of a transfer asks for a view. Receives leave the last views to sends, so that two
/// nodes which send to each other cannot starve each other.
enum class Use : std::uint8_t { send, receive };

/// Bytes of staging by state; K6: free + leased + quarantined + abandoned == total, always.
struct StagingGauges {
  std::uint64_t free = 0;
  std::uint64_t leased = 0;
  std::uint64_t quarantined = 0;
  std::uint64_t abandoned = 0;  ///< may still be touched for ever: kept mapped, never reused
  std::uint64_t total = 0;
  friend bool operator==(StagingGauges const&, StagingGauges const&) = default;
};

namespace req {

template <class S>
concept HasSlicingAndCopyEngine =
    requires {
      typename S::Slicing;
      typename S::CopyEngine;
      requires b10::Slicing<typename S::Slicing>;
      requires b10::CopyEngine<typename S::CopyEngine>;
    } ||
    unmet<
        "add: using Slicing = ... and using CopyEngine = ... (models of b10::Slicing and "
        "b10::CopyEngine)">;

template <class S>
concept LeasesViews =
    requires(S& s, typename S::View view, typename S::Quarantined held) {
      requires std::movable<typename S::View> && !std::copyable<typename S::View>;
      requires std::movable<typename S::Quarantined> && !std::copyable<typename S::Quarantined>;
      { s.try_acquire(Use::send) } -> std::same_as<std::optional<typename S::View>>;
      { view.data() } noexcept -> std::same_as<std::byte*>;
      { s.release(std::move(view)) } noexcept;
      { s.quarantine(std::move(view)) } noexcept -> std::same_as<typename S::Quarantined>;
      { s.drop(std::move(held)) } noexcept;
      { s.recycle(std::move(held)) } noexcept;
      { s.abandon(std::move(held)) } noexcept;
    } ||
    unmet<
        "add: move-only View and Quarantined; try_acquire(Use), release(View&&), "
        "quarantine(View&&), and drop, recycle, abandon(Quarantined&&)">;

template <class S>
concept ReportsGauges =
    requires(S const& s) {
      { s.gauges() } noexcept -> std::same_as<StagingGauges>;
      { s.slice_bytes() } noexcept -> std::same_as<std::uint64_t>;
    } ||
    unmet<
        "add: StagingGauges gauges() const noexcept and std::uint64_t slice_bytes() const "
        "noexcept">;

template <class S>
concept SaysPlacement = requires {
  { S::placement } -> std::convertible_to<Placement>;
} || unmet<"add: static constexpr b10::Placement placement = ... (where staged bytes wait)">;

}  // namespace req

/// Where bytes wait between KV memory and the wire. A view is one slice plus room for the chunk
/// header; it is leased to one transfer and leaves it exactly once, by release or by quarantine.
/// Laws: gauges add up (K6) after every call; a view is exclusive; quarantined memory is never
/// leased again, except after recycle (v1 policies only); drop gives the memory back to the system
/// and the pool is refilled with fresh memory; abandon keeps it mapped, even when the pool dies;
/// views survive a move. One thread per pool. Models: staging::Host; staging::PinnedHost (with
/// b10::cuda).
template <class S>
concept Staging = Policy<S> && req::HasSlicingAndCopyEngine<S> && req::LeasesViews<S> &&
                  req::ReportsGauges<S> && req::SaysPlacement<S> && requires(S& s) {
                    typename S::Options;
                    { s.copies() } noexcept -> std::same_as<typename S::CopyEngine&>;
                    {
                      s.maintain()
                    } noexcept;  // refills what was dropped; called when the lane is idle
                  };

}  // namespace b10
