#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>
#include <b10/unmet.hpp>

namespace b10 {

enum class AgentOp : std::uint8_t { write, read };

/// One transfer: sources[i] is copied to destinations[i] of the remote agent. The lists are read
/// during submit() only.
template <class SourceReady>
struct Submission {
  AgentOp op = AgentOp::write;
  std::span<LocalSpan const> sources{};
  std::span<RemoteSpan const> destinations{};
  std::string_view remote{};
  RequestId request{};
  /// Fires when the sources hold their data; needed for sources in device memory.
  std::optional<SourceReady> ready{};
  Duration deadline = seconds(60);  ///< from submit() to the outcome
};

/// Whether a remote agent can be written to now.
enum class Reach : std::uint8_t { unknown, connecting, connected, failed };

namespace req {

template <class S>
concept IsATransferStatus =
    requires(S const& s, std::function<void()> f) {
      requires std::copyable<S>;
      { s.outcome() } -> std::same_as<std::optional<Outcome>>;
      { s.sources_released() } -> std::same_as<bool>;
      s.cancel();
      s.on_done(f);
    } ||
    unmet<
        "Status needs: copyable, std::optional<Outcome> outcome() const, bool sources_released() "
        "const, cancel() const, on_done(std::function<void()>) const">;

template <class E>
concept IsAnExpectation =
    requires(E& e, E const& c, std::function<void()> f, Duration limit) {
      requires std::movable<E>;
      typename E::Quiescent;
      { c.landed_bytes() } -> std::same_as<std::uint64_t>;
      { c.failure() } -> std::same_as<std::optional<Outcome>>;
      { e.revoke(limit) } -> std::same_as<std::optional<typename E::Quiescent>>;
      e.on_change(f);
    } ||
    unmet<
        "Expectation needs: movable, Quiescent, landed_bytes() const, failure() const, "
        "std::optional<Quiescent> revoke(Duration), on_change(std::function<void()>)">;

template <class A>
concept MovesBytes = requires(A& a, Submission<typename A::SourceReady> const& s) {
  requires std::copyable<typename A::SourceReady>;
  { a.submit(s) } -> std::same_as<typename A::Status>;
} || unmet<"add: copyable SourceReady, Status submit(Submission<SourceReady> const&)">;

template <class A>
concept ExpectsWrites =
    requires(A& a, RequestId r, std::span<LocalSpan const> spans, std::span<std::string const> from,
             Duration limit) {
      { a.expect(r, spans, from, limit) } -> std::same_as<typename A::Expectation>;
    } ||
    unmet<
        "add: Expectation expect(RequestId, std::span<LocalSpan const>, std::span<std::string "
        "const> from, Duration)">;

template <class A>
concept KnowsRemotes =
    requires(A& a, std::string const& name, std::span<std::byte const> bytes) {
      { a.local_descriptor() } -> std::same_as<std::vector<std::byte>>;
      a.load_remote(name, bytes);
      a.invalidate_remote(name);
      { a.reach(name) } -> std::same_as<Reach>;
      { a.now() } -> std::same_as<Instant>;
    } ||
    unmet<
        "add: local_descriptor(), load_remote(name, bytes), invalidate_remote(name), "
        "Reach reach(name), Instant now()">;

}  // namespace req

/// What the session layer stands on: something that moves bytes to a remote agent, and lets remote
/// agents write. Laws:
/// - submit() never blocks. Arguments that can never work throw Error; everything else is a Status
///   that ends in exactly one outcome, by the submission's deadline.
/// - sources_released() is true only when nothing can read the sources any more, and stays true.
///   cancel() claims nothing: the caller looks at sources_released().
/// - Nothing is written under an Expectation after revoke() has given its Quiescent value, which it
///   gives once; spans() of it are the expectation's.
/// - Only the remotes named in `from` can write under an Expectation.
/// - on_done and on_change callbacks may come on any thread, also inside the call that sets them.
/// Thread-safe.
template <class A>
concept TransferAgent =
    req::MovesBytes<A> && req::IsATransferStatus<typename A::Status> && req::ExpectsWrites<A> &&
    req::IsAnExpectation<typename A::Expectation> && req::KnowsRemotes<A>;

}  // namespace b10
