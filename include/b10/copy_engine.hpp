#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <b10/completion.hpp>
#include <b10/policy.hpp>
#include <b10/types.hpp>

namespace b10 {

/// The spans one chunk covers, in order: all of `spans`, less the first `skip` bytes of the first
/// one, cut off after `bytes`. The spans outlive the copy's event.
struct SpanRun {
  std::span<LocalSpan const> spans;
  std::uint64_t skip = 0;
  std::uint64_t bytes = 0;

  /// Calls f(address, bytes, device) for each non-empty piece, in order.
  template <class F>
  constexpr void for_each(F&& f) const {
    std::uint64_t left = bytes;
    std::uint64_t offset = skip;
    for (LocalSpan const& s : spans) {
      if (left == 0) return;
      std::uint64_t const n = s.bytes - offset < left ? s.bytes - offset : left;
      if (n > 0) f(s.address + offset, n, s.device);
      left -= n;
      offset = 0;
    }
  }
};

enum class CopyState : std::uint8_t { pending, done, failed };

namespace req {

template <class E>
concept IsMadeFromOptions =
    requires {
      typename E::Options;
      requires std::copy_constructible<typename E::Options>;
      requires std::constructible_from<E, typename E::Options const&, std::uint64_t>;
    } ||
    unmet<
        "add: a copyable Options type, and a constructor from (Options const&, std::uint64_t "
        "slice_bytes), the most bytes that one copy moves">;

template <class E>
concept HasEvents =
    requires(E& e, typename E::Event& event, typename E::SourceReady const& ready) {
      requires std::default_initializable<typename E::Event>;
      requires std::movable<typename E::Event>;
      requires std::default_initializable<typename E::SourceReady>;
      requires std::copyable<typename E::SourceReady>;
      { e.query(event) } noexcept -> std::same_as<CopyState>;
      { e.source_ready(ready) } noexcept -> std::same_as<CopyState>;
    } ||
    unmet<
        "add: Event and SourceReady types, CopyState query(Event&) noexcept and CopyState "
        "source_ready(SourceReady const&) noexcept">;

template <class E>
concept Gathers =
    requires(E& e, SpanRun run, std::byte* to, typename E::Event& event) {
      { e.gather(run, to, event) } -> std::same_as<void>;
    } ||
    unmet<
        "add: void gather(SpanRun from, std::byte* to, Event&) (starts the copy; the event fires "
        "when it has ended)">;

template <class E>
concept Scatters =
    requires(E& e, std::byte const* from, SpanRun run, typename E::Event& event) {
      { e.scatter(from, run, event) } -> std::same_as<void>;
    } ||
    unmet<
        "add: void scatter(std::byte const* from, SpanRun to, Event&) (starts the copy; the event "
        "fires when it has ended)">;

template <class E>
concept SaysWhenItHasRoom =
    requires(E& e) {
      { e.has_room() } noexcept -> std::same_as<bool>;
    } ||
    unmet<
        "add: bool has_room() noexcept (false while scratch or copy slots are all in use: the "
        "pipeline asks again at its next turn)">;

template <class E>
concept ExplainsFailures = requires(E const& e) {
  { e.why() } -> std::same_as<std::string>;
} || unmet<"add: std::string why() const (what the latest failed event reported; empty: nothing)">;

template <class E>
concept SaysWhetherCopiesEndInline =
    requires {
      { E::ends_inline } -> std::convertible_to<bool>;
    } ||
    unmet<
        "add: static constexpr bool ends_inline = ... (true: the copy has ended when gather or "
        "scatter returns)">;

template <class E>
concept DigestsCopies =
    requires(E& e, E const& c, std::byte* to, std::byte const* from, SpanRun run,
             typename E::Event& event) {
      { e.gather_digested(run, to, event) } -> std::same_as<void>;
      { e.scatter_digested(from, run, event) } -> std::same_as<void>;
      { c.digest(event) } noexcept -> std::same_as<std::uint64_t>;
    } ||
    unmet<"use a copy engine with digests: copy::Staged, copy::Memcpy; or add the functions above">;

}  // namespace req

/// Copies between KV memory and staging, and says when a copy has ended. Laws: after query() says
/// done, every byte of the run equals its counterpart and none outside changed; while it says
/// pending both sides may still be touched; a copy that cannot start throws b10::Error{copy_failed}
/// having touched nothing; a default SourceReady is ready at once; after has_room() says true the
/// next copy starts without waiting; an engine with no copy under way has room. One thread per
/// engine. Models: copy::Memcpy (host memory); copy::Staged, copy::Direct,
/// copy::CopyEngineBatch (with b10::cuda).
template <class E>
concept CopyEngine = Policy<E> && req::IsMadeFromOptions<E> && req::HasEvents<E> &&
                     req::Gathers<E> && req::Scatters<E> && req::SaysWhenItHasRoom<E> &&
                     req::ExplainsFailures<E> && req::SaysWhetherCopiesEndInline<E>;

namespace detail {

/// Stands in where no digests are wanted. Compilers explain a concept, not one side of an `or`.
struct DigestsNothing {
  struct Event {};
  void gather_digested(SpanRun, std::byte*, Event&);
  void scatter_digested(std::byte const*, SpanRun, Event&);
  std::uint64_t digest(Event const&) const noexcept;
};
template <class Completion, class Engine>
using EngineToDigest = std::conditional_t<wants_digests<Completion>, Engine, DigestsNothing>;

}  // namespace detail

/// A copy engine that can also say what it copied. Law: after a copy that was started by
/// gather_digested or scatter_digested has ended as done, digest(event) is the Digest
/// (b10/digest.hpp) of its contiguous side. Models: copy::Memcpy, copy::Staged, copy::Fake.
template <class E>
concept DigestingCopyEngine = CopyEngine<E> && req::DigestsCopies<E>;

}  // namespace b10
