#pragma once

#include <algorithm>
#include <array>
#include <b10/core/descriptors.hpp>
#include <b10/core/endpoint.hpp>
#include <b10/core/flight_recorder.hpp>
#include <b10/core/plan.hpp>
#include <b10/core/receive.hpp>
#include <b10/core/task.hpp>
#include <b10/core/wire.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace b10::core {

/// The receiver's protocol, top to bottom: validation, the first descriptors, staging, receives,
/// READY, the chunk loop with further descriptors, local completion, RESULT; and under it the one
/// failure funnel.
template <class Lane>
struct ReceivePipeline {
  using Receive = typename Lane::Receive;
  using Slot = typename Lane::Slot;
  using State = typename Slot::State;

  static Task run(Lane& lane, Receive& t) {
    try {
      check_control(lane, t);
      while (!lane.permits_in_parts(t) && !t.last_segment && t.refusal.empty())
        co_await t.fence.next("DESCRIPTORS");
      while (accept(lane, t), !can_start(lane, t)) co_await t.fence.next("DESCRIPTORS");
      std::optional<typename Lane::View> first;
      while (!lane.take_view(first, t.fence, Use::receive))
        co_await t.fence.next("a staging view (staging Options)");
      post_window(lane, t, std::move(first));
      send_ready(lane, t);

      while (!t.complete || t.landed < t.control.chunks) {
        accept(lane, t);
        bool const copying = pump(lane, t);
        if (t.complete && t.landed == t.control.chunks) break;
        if (copying)
          co_await t.fence.poll("scatters to end");
        else
          co_await t.fence.next("DATA");
      }
      succeed(lane, t);
    } catch (...) {
      funnel(lane, t, std::current_exception());
    }
  }

 private:
  /// What can be wrong with the plan as announced is found here, before READY: nothing is posted
  /// yet, so a refusal quarantines nothing and writes nothing.
  static void check_control(Lane& lane, Receive& t) {
    wire::Control const& c = t.control;
    auto const refuse = [](std::string const& why) { throw Error(Reason::refused, why); };
    if (c.digest != to_integer(Lane::digest_kind))
      refuse("digest kind " + std::to_string(c.digest) + ", here it is " +
             std::to_string(to_integer(Lane::digest_kind)) + " (the Completion policy, " +
             std::string(Lane::Completion::name) + " here, must be the same on both nodes)");
    if (c.slice_bytes == 0 || c.slice_bytes > lane.slice_bytes(*t.endpoint))
      refuse("slices of " + std::to_string(c.slice_bytes) + " bytes, agreed were " +
             std::to_string(lane.slice_bytes(*t.endpoint)));
    if (c.chunks == 0 || c.chunks > chunks_max)
      refuse("a plan of " + std::to_string(c.chunks) + " chunks, allowed are 1 to " +
             std::to_string(chunks_max));
    if (!Lane::views_reachable && c.placed)
      refuse("this node offers no staging for a sender to write");
    if (!Lane::wire_reaches && !c.placed)
      refuse(std::string(Lane::Staging::name) +
             " cannot be filled by the transport, and the sender cannot reach it: see explain() "
             "there");
    lane.check_quarantine_budget();
  }

  /// Takes up the spans that have come since: each is checked before its chunk can exist, so
  /// nothing is ever received for, or scattered to, a span that is not permitted. After the last
  /// one the plan must be the one that was announced.
  static void accept(Lane& lane, Receive& t) {
    if (!t.refusal.empty()) throw Error(Reason::refused, "descriptors: " + t.refusal);
    std::span<RemoteSpan const> const all(t.unpacker.spans());
    auto const fresh = all.subspan(t.spans.size());
    if (t.complete || (fresh.empty() && !t.last_segment)) return;
    lane.permit(t, fresh);
    // Address space for all of them, so that the chunks under way, which refer to them, stay valid.
    t.spans.reserve(t.control.spans);
    for (RemoteSpan const& s : fresh) {
      // It has just been permitted, so here a number becomes a pointer.
      t.spans.push_back({reinterpret_cast<std::byte*>(s.address), s.bytes, s.device});
      t.cutter.add(s.bytes);
    }
    if (t.last_segment) complete(t);
    if (t.chunks().size() > t.control.chunks ||
        (t.complete && t.chunks().size() != t.control.chunks))
      throw Error(Reason::refused, "the plan says " + std::to_string(t.control.chunks) +
                                       " chunks, its spans make " +
                                       std::to_string(t.chunks().size()));
  }
  static void complete(Receive& t) {
    if (!t.unpacker.complete())
      throw Error(Reason::refused, "descriptors end before " + std::to_string(t.control.spans) +
                                       " spans of " + std::to_string(t.control.bytes) + " bytes");
    t.cutter.finish();
    t.complete = true;
  }

  [[nodiscard]] static std::size_t window(Lane const& lane, Receive const& t) noexcept {
    std::size_t const most = t.control.placed ? wire::ready_places_max : chunks_max;
    return std::min(
        {std::size_t{t.control.ordered ? 1 : lane.depth()}, most, std::size_t{t.control.chunks}});
  }
  /// The first chunks are known: the rest of a long list may come while they are under way.
  [[nodiscard]] static bool can_start(Lane const& lane, Receive const& t) noexcept {
    return t.complete || t.chunks().size() >= window(lane, t);
  }

  /// Reserves the tags, then posts receives for as many chunks as staging allows now: never holds
  /// one view while waiting for another, so receivers cannot block each other.
  static void post_window(Lane& lane, Receive& t, std::optional<typename Lane::View> first) {
    auto flight = std::make_unique<typename Lane::Flight>(window(lane, t));
    flight->begin()->view = std::move(first);
    std::swap(t.flight, flight);  // from here on the funnel sweeps it, view included
    lane.reserve_tags(*t.endpoint, t.id(), t.control.chunks, t.flight->tags);
    std::size_t posted = 0;
    for (Slot& s : *t.flight) {
      if (&s != t.flight->begin() && !lane.try_view(s.view, Use::receive)) break;
      s.operation.waker = &t.fence;
      post(lane, t, s);
      ++posted;
    }
    t.flight->size = posted;  // slots are in order: the rest stay empty
  }

  /// A placed transfer's chunks come without payload: the sender is told where to put that. The
  /// first window's places have gone with READY.
  static void give_places(Lane& lane, Receive& t) {
    if (t.new_places.empty()) return;
    auto const count = static_cast<std::uint32_t>(t.new_places.size());
    if (!lane.give_places(t, t.next - count, t.new_places))
      throw Error(Reason::transport_failed, "PLACES was not sent");
    t.new_places.clear();
  }

  static void post(Lane& lane, Receive& t, Slot& s) {
    s.chunk = t.next++;
    s.state = State::wire;
    s.operation.reset();
    t.endpoint->link->receive(
        lane.tag(t.endpoint->identity(t.id(), MessageKind::data, ChunkIndex{s.chunk})),
        message(t, s), message_bytes(t, s), s.operation);
    if (t.control.placed) t.new_places.push_back(lane.place_of(*s.view));
  }
  /// Where DATA is received: in the view, or beside it if the view holds the payload already.
  static std::byte* message(Receive& t, Slot& s) noexcept {
    return t.control.placed ? s.header.data() : s.view->data();
  }
  static std::uint64_t message_bytes(Receive const& t, Slot const& s) noexcept {
    return wire::data_header_bytes + (t.control.placed ? 0 : t.chunks()[s.chunk].bytes);
  }

  static void send_ready(Lane& lane, Receive& t) {
    wire::Ready ready{};
    ready.header = header(t, MessageKind::ready);
    ready.window = static_cast<std::uint32_t>(t.flight->size);
    ready.places = t.new_places;
    t.ready_sent = true;
    lane.record(Stage::ready_sent, t.id());
    if (!lane.reply(*t.endpoint, ready))
      throw Error(Reason::transport_failed, "READY was not sent");
    t.new_places.clear();
  }

  /// Moves every chunk under way one step on. Returns whether a scatter is still running, or waits
  /// for room in the copy engine: neither wakes, so the lane polls.
  static bool pump(Lane& lane, Receive& t) {
    bool copying = false;
    for (Slot& s : *t.flight) {
      if (s.state == State::wire && s.operation.done()) {
        if (lane.copies().has_room())
          scatter(lane, t, s);
        else
          copying = true;
      }
      if (s.state == State::copying) copying |= !finish_scatter(lane, t, s);
      if (s.state == State::idle && t.next < t.chunks().size()) post(lane, t, s);
    }
    give_places(lane, t);
    return copying;
  }

  /// Throws unless what has come under the chunk's tag is exactly that chunk.
  static void check_message(Lane& lane, Receive& t, Slot& s) {
    Chunk const& c = t.chunks()[s.chunk];
    Operation const& op = s.operation;
    auto const& e = *t.endpoint;
    if (!Lane::Types::guards_identities && op.status() == OperationStatus::ok) return;
    Tag const tag = lane.tag(e.identity(t.id(), MessageKind::data, ChunkIndex{s.chunk}));
    if (op.status() != OperationStatus::ok || op.bytes() != message_bytes(t, s) || op.tag() != tag)
      throw Error(
          op.status() == OperationStatus::failed || op.status() == OperationStatus::cancelled
              ? Reason::peer_lost
              : Reason::integrity,
          "DATA " + std::to_string(s.chunk) + ": got " + std::to_string(op.bytes()) + " of " +
              std::to_string(message_bytes(t, s)) + " bytes, " + std::string(op.text()));
    auto const h = wire::decode_data_header({message(t, s), wire::data_header_bytes});
    s.digest = Lane::digests && h ? h->digest : 0;
    wire::DataHeader const want{e.info.generation, t.id(), ChunkIndex{s.chunk}, c.bytes, s.digest};
    if (!h || *h != want)
      throw Error(Reason::integrity,
                  "DATA " + std::to_string(s.chunk) + " carries another identity");
  }

  /// Nothing but exactly the expected chunk reaches KV memory, and only under a live grant.
  static void scatter(Lane& lane, Receive& t, Slot& s) {
    check_message(lane, t, s);
    Chunk const& c = t.chunks()[s.chunk];
    lane.record(Stage::data_received, t.id(), s.chunk);

    if (!t.grant->state->begin_copy())
      throw Error(
          Reason::cancelled,
          "the grant of request " + std::to_string(to_integer(t.control.request)) + " was revoked");
    lane.record(Stage::scatter_started, t.id(), s.chunk);
    std::span<LocalSpan const> const spans(t.spans);
    try {
      std::byte const* const from = s.view->data() + wire::data_header_bytes;
      SpanRun const run{spans.subspan(c.first, c.count), c.skip, c.bytes};
      if constexpr (Lane::digests)
        lane.copies().scatter_digested(from, run, s.event);
      else
        lane.copies().scatter(from, run, s.event);
    } catch (...) {
      lane.end_copy(*t.grant);  // it never began
      throw;
    }
    s.state = State::copying;
  }

  static bool finish_scatter(Lane& lane, Receive& t, Slot& s) {
    CopyState const copy = lane.copies().query(s.event);
    if (copy == CopyState::pending) return false;
    s.state = State::idle;
    lane.end_copy(*t.grant);
    if (copy == CopyState::failed)
      throw Error(Reason::copy_failed, "a scatter failed: " + lane.copies().why());
    if (lane.digest(s) != s.digest)
      throw Error(Reason::integrity, "DATA " + std::to_string(s.chunk) +
                                         ": the bytes that were scattered are not those that were "
                                         "gathered, their digests differ (completion::Digested)");
    lane.record(Stage::scatter_done, t.id(), s.chunk);
    t.bytes_landed += t.chunks()[s.chunk].bytes;
    ++t.landed;
    return true;
  }

  /// Completion is decided here, before RESULT leaves: losing RESULT does not undo a landed
  /// transfer.
  static void succeed(Lane& lane, Receive& t) {
    for (Slot& s : *t.flight) lane.give_back(s.view);
    lane.release_tags(t.flight->tags);
    lane.record(Stage::landed, t.id());
    if constexpr (Lane::Completion::proves_landing) {
      wire::Result result{};
      result.header = header(t, MessageKind::result);
      result.bytes = t.bytes_landed;
      (void)lane.reply(*t.endpoint, result);
      lane.record(Stage::result_sent, t.id());
    }
    lane.finish(t, Outcome{Status::landed, Reason::none, t.bytes_landed, true, true, {}});
  }

  /// The one way a receive fails. Before anything was posted it is a refusal and leaves nothing
  /// behind; after, all that may still be touched goes into the generation's remains.
  static void funnel(Lane& lane, Receive& t, std::exception_ptr cause) noexcept {
    Outcome o = lane.outcome_of(cause);
    o.bytes = t.bytes_landed;
    bool const posted = t.flight && t.next > 0;
    bool copying = false;
    if (posted) {
      for (Slot& s : *t.flight) copying |= s.state == State::copying;
      if (!lane.wind_down(t, o)) lane.sweep(t);
    } else if (t.flight) {
      for (Slot& s : *t.flight) lane.give_back(s.view);
      lane.release_tags(t.flight->tags);
    }
    o.destinations_quiescent = !copying || !Lane::Types::retires_generations;
    if (!t.superseded) answer(lane, t, o);
    lane.finish(t, std::move(o));
  }

  static void answer(Lane& lane, Receive& t, Outcome const& o) noexcept {
    if (t.ready_sent) {
      if constexpr (!Lane::Completion::proves_landing) return;  // nobody waits for it
      wire::Result result{};
      result.header = header(t, MessageKind::result);
      result.reason = o.reason;
      result.text = o.why;
      (void)lane.reply(*t.endpoint, result);
    } else {
      wire::Ready ready{};
      ready.header = header(t, MessageKind::ready);
      ready.reason = o.reason;
      ready.text = o.why;
      (void)lane.reply(*t.endpoint, ready);
    }
  }

  static wire::Header header(Receive const& t, MessageKind kind) noexcept {
    wire::Header h = t.control.header;
    h.kind = kind;
    return h;
  }
};

}  // namespace b10::core
