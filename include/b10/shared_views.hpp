#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <b10/staging.hpp>

namespace b10 {

/// What a staging policy may offer besides: views that a peer writes itself, so that payloads need
/// no wire. The receiver grants a place for each chunk; the sender's gather lands in it, then a
/// DATA message without payload says so, and the receiver scatters. A place is good for one chunk,
/// and memory that was granted to a failed transfer is never a place again.
///  - offer(): what a peer needs to reach this staging; goes to it in the greeting. Opaque text.
///  - reach(offer, why): a peer's staging as seen from here, or nothing and the reason. Hostile
///    input.
///  - place(view): names the payload of a leased view to peers.
///  - Reach::at(place, bytes): where to write; null unless [place, place + bytes) lies inside. What
///    it
///    points to stays mapped as long as the Reach lives.
///  - wire_reaches: whether views are host memory, so that the transport can fill them when no peer
///    can.
/// Models: staging::SharedHost; staging::Device (with b10::cuda).
template <class S>
concept SharesViews =
    Staging<S> && requires(S& s, S const& c, typename S::View const& view, std::string_view offer,
                           std::string& why, typename S::Reach& reach, std::uint64_t n) {
      requires std::move_constructible<typename S::Reach>;
      { c.offer() } -> std::same_as<std::string>;
      { s.reach(offer, why) } -> std::same_as<std::optional<typename S::Reach>>;
      { c.place(view) } noexcept -> std::same_as<std::uint64_t>;
      { reach.at(n, n) } -> std::same_as<std::byte*>;
      { S::wire_reaches } -> std::convertible_to<bool>;
    };

}  // namespace b10
