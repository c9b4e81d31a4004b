#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <b10/hello.hpp>
#include <b10/operation.hpp>
#include <b10/policy.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10 {

/// Names one link of one transport object; never reused while the object lives.
enum class LinkId : std::uint64_t {};
/// The caller's name for one connect().
enum class ConnectId : std::uint64_t {};

enum class LinkDown : std::uint8_t {
  bye,     ///< the peer ended in order
  lost,    ///< its socket or endpoint closed or failed
  silent,  ///< heartbeats missed
};

/// What a new link is told about: the peer's greeting, and the identity both sides agreed on.
struct LinkInfo {
  Hello remote;
  PairDomain domain{};
  Generation generation{};
  bool initiator = false;  ///< this side connected
};

/// What a transport calls, always from within progress(), never from another thread.
/// A stand-in to state the concept; the real one is the lane.
struct TransportHandlerArchetype {
  /// The highest generation this node has used with that node, 0 if none. The agreed one is above
  /// both sides'.
  Generation last_generation(Hello const& remote, PairDomain domain) noexcept;
  /// A sentence that names both values if that node must be refused, else empty.
  std::string refuse(Hello const& remote, std::string_view from);
  template <class Link>
  void on_link(Link&& link, LinkInfo const& info,
               ConnectId connect);  // connect 0: the peer connected
  void on_connect_failed(ConnectId connect, std::string_view why);
  void on_link_down(LinkId link, LinkDown how, std::string_view why) noexcept;
  void on_control(LinkId link, std::span<std::byte const> frame);
};

namespace req {

template <class T>
concept HasLinks =
    requires(typename T::Link& link, Operation& op, Tag tag, std::byte* p, std::byte const* c,
             std::uint64_t n, std::span<std::byte const> frame) {
      requires std::movable<typename T::Link> && !std::copyable<typename T::Link>;
      { link.id() } noexcept -> std::same_as<LinkId>;
      { link.control(frame) } noexcept -> std::same_as<bool>;
      { link.send(tag, c, n, op) } noexcept -> std::same_as<void>;
      { link.receive(tag, p, n, op) } noexcept -> std::same_as<void>;
      { link.cancel(op) } noexcept -> std::same_as<void>;
      { link.bye() } noexcept -> std::same_as<void>;
      { link.retire() } noexcept -> std::same_as<void>;
      { link.sink_unexpected() } noexcept -> std::same_as<unsigned>;
    } ||
    unmet<
        "add: a move-only Link with id, control(frame), send and receive(tag, buffer, bytes, "
        "Operation&), cancel(Operation&), bye(), retire() and sink_unexpected()">;

template <class T>
concept Connects =
    requires(T& t, ConnectId id, std::string_view address, Instant deadline) {
      { t.connect(id, address, deadline) } -> std::same_as<void>;
      { t.address() } -> std::convertible_to<std::string>;
    } ||
    unmet<
        "add: void connect(ConnectId, std::string_view address, Instant deadline) and std::string "
        "address()">;

template <class T>
concept Progresses =
    requires(T& t, TransportHandlerArchetype& handler, Instant until) {
      { t.progress(handler) } -> std::same_as<unsigned>;
      { t.wait(until) } -> std::same_as<void>;
      { t.wake() } noexcept -> std::same_as<void>;
      { t.now() } noexcept -> std::same_as<Instant>;
    } ||
    unmet<
        "add: unsigned progress(Handler&), void wait(Instant until), void wake() noexcept and "
        "Instant now() noexcept">;

template <class T>
concept SaysLimits =
    requires {
      { T::control_bytes_max } -> std::convertible_to<std::size_t>;
    } ||
    unmet<
        "add: static constexpr std::size_t control_bytes_max = ... (longest control frame, below "
        "4096)">;

template <class T>
concept Explains = requires(T const& t) {
  { t.explain() } -> std::same_as<std::string>;
} || unmet<"add: std::string explain() const (version, lanes really used, thresholds, why)">;

}  // namespace req

/// Carries bytes between two nodes and knows the time.
///
/// A Link is one generation of one pair: its own matching space, its own worker. Constructed by the
/// transport, handed over in on_link, owned by the caller. All its calls come from the thread that
/// calls progress().
///  - control(): short frame, copied before return; delivered in order or not at all; false: not
///    posted.
///  - send/receive: the buffer and Operation stay alive and untouched until the operation is done
///    or the Link is destroyed. A post that fails completes the operation at once with `failed`.
///    Tags match in full.
///  - receive's result: `ok` with the message's length, which may be shorter than the buffer;
///    `truncated` when longer.
///  - cancel(): asks; only a receive that has not matched yet is sure to end. Never proves that
///    bytes are quiet.
///  - retire(): force-closes without waiting; pending operations may complete as cancelled, later,
///    or never.
///  - sink_unexpected(): throws away messages that have come and no receive has wanted; their
///    senders are done with them. Only while nobody expects any.
///  - ~Link(): the worker is destroyed: afterwards nothing of this link can touch any buffer, and
///    operations that were pending stay pending for ever.
///  - bye(): tells the peer that this side ends in order; both sides then get on_link_down(bye).
///    Post nothing after it. Laws (tests/laws/transport.hpp): bytes arrive exactly; equal tags
///    match in order; a send with no receive waits and harms nobody; nothing is delivered to a
///    handler outside progress(); wait() returns by `until` or on wake(). Models: transport::Ucx
///    (reference), transport::Loopback.
template <class T>
concept Transport = Policy<T> && req::HasLinks<T> && req::Connects<T> && req::Progresses<T> &&
                    req::SaysLimits<T> && req::Explains<T> && requires { typename T::Options; };

}  // namespace b10
