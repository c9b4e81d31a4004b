#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <b10/policy.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>
#include <b10/unmet.hpp>

namespace b10 {

/// A plane's handle of an opened remote address.
enum class PlaneRoute : std::uint32_t {};

/// Longest message of a native plane [bytes]; longer ones are refused by send() and dropped on
/// arrival.
inline constexpr std::size_t plane_message_bytes_max = std::size_t{64} << 20;

namespace req {

template <class P>
concept IsAnAddressedMailbox =
    requires(P& p, std::string const& address, PlaneRoute route,
             std::span<std::byte const> message) {
      typename P::Options;
      requires std::constructible_from<P, typename P::Options>;
      { p.address() } -> std::same_as<std::string>;
      { p.open(address) } -> std::same_as<PlaneRoute>;
      { p.send(route, message) } -> std::same_as<bool>;
      p.close(route);
      { p.receive() } -> std::same_as<std::optional<std::vector<std::byte>>>;
    } ||
    unmet<
        "add: Options, std::string address(), PlaneRoute open(std::string const&), bool "
        "send(PlaneRoute, std::span<std::byte const>), close(PlaneRoute), "
        "std::optional<std::vector<std::byte>> receive()">;

template <class P>
concept SleepsUntilWoken = requires(P& p, Duration limit) {
  p.wait(limit);
  { p.wake() } noexcept;
} || unmet<"add: void wait(Duration), void wake() noexcept">;

}  // namespace req

/// What carries the session layer's own messages, apart from the bytes of KV. Laws:
/// - No function but wait() blocks. send() is false, with nothing sent, where the message is too
///   long or the route's queue is full; the caller keeps the message and tries again.
/// - Messages of one route arrive whole and in order, or are lost with the peer. Nothing is said
///   about who sent a message: the layer above checks.
/// - A route to a peer that is gone costs nothing but its queue, until close().
/// - wait() returns when a message is there, after wake() (also one before it), or at its limit.
/// open, send, close and wake: any thread. receive and wait: one thread at a time.
template <class P>
concept NativePlane = Policy<P> && req::IsAnAddressedMailbox<P> && req::SleepsUntilWoken<P>;

}  // namespace b10
