// A staging policy that watches its quarantine: views are filled with a canary when they go in, and
// what has changed is counted when they come out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <b10/staging.hpp>

#include "plane.hpp"

namespace b10::bench {

/// Wraps a host staging policy of a receiver. Not for senders: the transport may still read what is
/// in their quarantine, so nothing may write there.
template <Staging Inner>
class Watched {
 public:
  using Slicing = typename Inner::Slicing;
  using CopyEngine = typename Inner::CopyEngine;
  using View = typename Inner::View;
  static constexpr std::string_view name = Inner::name;
  static constexpr Placement placement = Inner::placement;

  struct Options : Inner::Options {
    Counts* counts = nullptr;  ///< where to report; must outlive the pool
  };
  /// `data` and `bytes` of the view, before it became opaque.
  struct Quarantined {
    typename Inner::Quarantined held;
    std::byte* data;
    std::size_t bytes;
  };

  explicit Watched(Options options) : counts_(*options.counts), inner_(std::move(options)) {}

  [[nodiscard]] std::optional<View> try_acquire(Use use) noexcept {
    return inner_.try_acquire(use);
  }
  void release(View&& view) noexcept { inner_.release(std::move(view)); }
  [[nodiscard]] Quarantined quarantine(View&& view) noexcept {
    auto* const data = view.data();
    auto const bytes = view.bytes();
    std::memset(data, std::to_integer<int>(canary), bytes);
    ++counts_.quarantined;
    return {inner_.quarantine(std::move(view)), data, bytes};
  }
  void drop(Quarantined&& q) noexcept {
    look(q);
    inner_.drop(std::move(q.held));
  }
  void recycle(Quarantined&& q) noexcept {
    look(q);
    inner_.recycle(std::move(q.held));
  }
  void abandon(Quarantined&& q) noexcept {
    look(q);
    inner_.abandon(std::move(q.held));
  }
  void maintain() noexcept { inner_.maintain(); }
  [[nodiscard]] StagingGauges gauges() const noexcept { return inner_.gauges(); }
  [[nodiscard]] std::uint64_t slice_bytes() const noexcept { return inner_.slice_bytes(); }
  [[nodiscard]] CopyEngine& copies() noexcept { return inner_.copies(); }

 private:
  static constexpr auto canary = std::byte{0xee};

  void look(Quarantined const& q) noexcept {
    if (!q.data) return;
    auto const changed =
        std::count_if(q.data, q.data + q.bytes, [](auto b) { return b != canary; });
    if (changed == 0) return;
    ++counts_.late_views;
    counts_.late_bytes += static_cast<std::uint64_t>(changed);
  }

  Counts& counts_;
  Inner inner_;
};

}  // namespace b10::bench
