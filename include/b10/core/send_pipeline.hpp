#pragma once

#include <algorithm>
#include <array>
#include <b10/core/descriptors.hpp>
#include <b10/core/endpoint.hpp>
#include <b10/core/flight_recorder.hpp>
#include <b10/core/plan.hpp>
#include <b10/core/send.hpp>
#include <b10/core/task.hpp>
#include <b10/core/wire.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace b10::core {

/// The sender's protocol, top to bottom: admission, endpoint, CONTROL, READY, the chunk loop,
/// RESULT; and under it the one failure funnel.
template <class Lane>
struct SendPipeline {
  using Send = typename Lane::Send;
  using Slot = typename Lane::Slot;
  using State = typename Slot::State;

  static Task run(Lane& lane, Send& t) {
    try {
      while (!lane.admit(t)) co_await t.fence.next("admission (Config::admission_bytes)");
      t.fence.set_deadline(t.deadline);
      lane.stamp(t, t.stages.queued);

      while (!t.accepted) {
        while (!lane.lease(t)) co_await t.fence.next("a connection to the peer");
        lane.stamp(t, t.stages.connecting);
        begin_attempt(lane, t);
        while (!t.flight->ready.done() && !t.link_lost) {
          if (post_descriptors(lane, t))
            co_await t.fence.poll("descriptors to be packed");
          else
            co_await t.fence.next("READY");
        }
        read_ready(lane, t);
      }
      lane.stamp(t, t.stages.ready);

      while (!source_is_ready(lane, t)) {
        if (t.flight->result.done()) read_result(lane, t);  // the receiver has given up
        co_await t.fence.poll("the source-ready event");
      }
      while (t.sent < t.chunks.size()) {
        bool const packing = post_descriptors(lane, t);  // the rest of a long list
        bool const copying = pump(lane, t);
        if (t.sent == t.chunks.size()) break;
        if (copying || packing)
          co_await t.fence.poll("gathers to end");
        else
          co_await t.fence.next("staging views or places (staging Options) or DATA to be sent");
      }
      for (Slot& s : *t.flight) lane.give_back(s.view);
      lane.stamp(t, t.stages.data);

      if constexpr (Lane::Completion::proves_landing) {
        while (!t.flight->result.done()) co_await t.fence.next("RESULT");
        read_result(lane, t);
      }
      lane.stamp(t, t.stages.result);
      succeed(lane, t);
    } catch (...) {
      funnel(lane, t, std::current_exception());
    }
  }

 private:
  /// Names the transfer, reserves its tags, posts the receives for READY and RESULT, sends CONTROL.
  static void begin_attempt(Lane& lane, Send& t) {
    auto& e = *t.endpoint;
    lane.name_transfer(t);
    std::uint64_t const slice = lane.slice_bytes(e);
    t.chunks = cut(std::span<LocalSpan const>(t.plan.sources), slice);
    t.window = std::min<std::size_t>(t.plan.ordered ? 1 : lane.depth(), t.chunks.size());
    auto flight = std::make_unique<typename Lane::Flight>(t.window);
    lane.reserve_tags(e, t.id, t.chunks.size(), flight->tags);
    t.flight = std::move(flight);

    t.flight->ready.waker = t.flight->result.waker = &t.fence;
    for (Slot& s : *t.flight) s.operation.waker = &t.fence;
    auto& link = *e.link;
    link.receive(lane.tag(e.identity(t.id, MessageKind::ready)), t.flight->ready_buffer.data(),
                 t.flight->ready_buffer.size(), t.flight->ready);
    if constexpr (Lane::Completion::proves_landing)
      link.receive(lane.tag(e.identity(t.id, MessageKind::result)), t.flight->result_buffer.data(),
                   t.flight->result_buffer.size(), t.flight->result);

    t.placed = static_cast<bool>(e.reach);
    t.places.clear();
    t.placed_until = 0;
    t.packer.emplace(std::span<RemoteSpan const>(t.plan.destinations));
    t.descriptor_segments = 0;
    std::array<std::byte, wire::frame_bytes_max> frame;
    std::array<std::byte, wire::frame_bytes_max> segment;
    std::size_t const n = t.packer->pack(
        std::span(segment).first(wire::control_segment_room(frame.size())), spans_to_start(t));
    wire::Control control{};
    control.header = t.header();
    control.request = t.request;
    control.remaining = t.fence.deadline() - lane.now();
    control.bytes = t.plan.bytes;
    control.spans = static_cast<std::uint32_t>(t.plan.destinations.size());
    control.chunks = static_cast<std::uint32_t>(t.chunks.size());
    control.slice_bytes = slice;
    control.ordered = t.plan.ordered;
    control.last_segment = t.packer->done();
    control.placed = t.placed;
    control.digest = to_integer(Lane::digest_kind);
    control.segment = std::span<std::byte const>(segment).first(n);
    if (!link.control(wire::encode(control, frame))) t.lose_link(LinkDown::lost);
    lane.record(Stage::control_sent, t.id);
  }

  /// So many spans let the receiver know the first window of chunks, and so answer; the rest of the
  /// list is packed while CONTROL and READY are on their way. The last chunk of the window is known
  /// once the span after it is.
  static std::size_t spans_to_start(Send const& t) noexcept {
    return t.window < t.chunks.size() ? t.chunks[t.window].first + std::size_t{1}
                                      : t.plan.destinations.size();
  }

  /// Packs and sends the next descriptor segment; false when there is none left.
  static bool post_descriptors(Lane&, Send& t) {
    if (t.packer->done() || t.link_lost) return false;
    std::array<std::byte, wire::frame_bytes_max> frame;
    std::array<std::byte, wire::frame_bytes_max> segment;
    std::size_t const n =
        t.packer->pack(std::span(segment).first(wire::descriptors_segment_room(frame.size())));
    wire::Descriptors more{};
    more.header = t.header();
    more.header.kind = MessageKind::descriptors;
    more.sequence = ++t.descriptor_segments;
    more.last_segment = t.packer->done();
    more.segment = std::span<std::byte const>(segment).first(n);
    if (!t.endpoint->link->control(wire::encode(more, frame))) t.lose_link(LinkDown::lost);
    return true;
  }

  /// Accepted, refused, or this generation is over and the transfer tries again on a fresh one. It
  /// may do so as often as generations end in order, since each failed or cancelled neighbour ends
  /// one; a fault, such as a peer that dies, it survives once.
  static void read_ready(Lane& lane, Send& t) {
    auto const& op = t.flight->ready;
    if (op.done() && (!t.link_lost || op.status() == OperationStatus::ok)) {
      auto const ready = decode_reply(op, t.flight->ready_buffer, wire::decode_ready);
      bool const ours = !Lane::Types::guards_identities ||
                        (ready && ready->header == expected(t, MessageKind::ready));
      if (!ready || !ours)
        throw Error(Reason::integrity, "READY does not belong to this transfer: " + describe(op));
      if (!ready->stale_generation) return take_ready(lane, t, *ready);
    }
    if (t.faults > 1 || t.attempt == attempt_max)
      throw Error(Reason::peer_lost, "the connection was lost twice before READY");
    lane.end_attempt(t);
    t.attempt = Attempt{static_cast<std::uint16_t>(to_integer(t.attempt) + 1)};
    t.link_lost = false;
  }
  static constexpr Attempt attempt_max{0xffff};

  static void take_ready(Lane& lane, Send& t, wire::Ready const& ready) {
    if (ready.reason != Reason::none) {
      t.refused = true;
      bool const telling =
          ready.reason == Reason::quarantine_full || ready.reason == Reason::cancelled;
      throw Error(telling ? ready.reason : Reason::refused,
                  "the receiver refused: " + std::string(ready.text));
    }
    if (t.link_lost) throw Error(Reason::peer_lost, "the connection was lost after READY");
    t.window = std::min<std::size_t>(t.window, std::max<std::uint32_t>(1, ready.window));
    take_places(t, ready);
    lane.record(Stage::ready_received, t.id);
    t.accepted = true;
  }

  static void take_places(Send& t, wire::Ready const& ready) {
    if (ready.place_count > (t.placed ? t.chunks.size() : 0))
      throw Error(Reason::protocol, "READY gives " + std::to_string(ready.place_count) +
                                        " places to a transfer of " +
                                        std::to_string(t.chunks.size()) + " chunks" +
                                        (t.placed ? "" : " that asked for none"));
    t.places.assign(ready.decoded.begin(), ready.decoded.begin() + ready.place_count);
    t.placed_until = ready.place_count;
  }

  static bool source_is_ready(Lane& lane, Send& t) {
    CopyState const s = lane.copies().source_ready(t.source_ready);
    if (s == CopyState::failed)
      throw Error(Reason::copy_failed,
                  "the source-ready event reports an error: " + lane.copies().why());
    return s == CopyState::done;
  }

  /// Moves every chunk under way one step on and starts new ones while there is room and staging.
  /// Chunk i is gathered while i-1 is on the wire. Returns whether a gather is still running, or
  /// waits for room in the copy engine: neither wakes, so the lane polls.
  static bool pump(Lane& lane, Send& t) {
    if (t.flight->result.done()) read_result(lane, t);  // too early to be good news
    bool copying = false;
    for (std::size_t i = 0; i < t.window; ++i) {
      Slot& s = t.flight->begin()[i];
      if (s.state == State::wire && s.operation.done()) retire(lane, t, s);
      if (s.state == State::idle && t.next == t.chunks.size()) lane.give_back(s.view);
      if (s.state == State::idle && t.next < t.chunks.size()) {
        if (!lane.copies().has_room())
          copying = true;
        else if (std::byte* const to = destination(lane, t, s))
          gather(lane, t, s, to);
      }
      if (s.state == State::copying) copying |= !post_if_gathered(lane, t, s);
    }
    return copying;
  }

  /// Where the next chunk's payload goes: a view of ours, or the place that the receiver has given
  /// it. Null: none yet.
  static std::byte* destination(Lane& lane, Send& t, Slot& s) {
    if (!t.placed)
      return lane.take_view(s.view, t.fence, Use::send) ? s.view->data() + wire::data_header_bytes
                                                        : nullptr;
    if (t.places.empty()) return nullptr;
    std::byte* const to = lane.place_at(*t.endpoint, t.places.front(), t.chunks[t.next].bytes);
    t.places.pop_front();
    return to;
  }

  static void gather(Lane& lane, Send& t, Slot& s, std::byte* to) {
    Chunk const& c = t.chunks[t.next];
    std::span<LocalSpan const> const spans(t.plan.sources);
    lane.record(Stage::gather_started, t.id, t.next);
    SpanRun const run{spans.subspan(c.first, c.count), c.skip, c.bytes};
    if constexpr (Lane::digests)
      lane.copies().gather_digested(run, to, s.event);
    else
      lane.copies().gather(run, to, s.event);
    s.chunk = t.next++;
    s.state = State::copying;
  }

  static bool post_if_gathered(Lane& lane, Send& t, Slot& s) {
    CopyState const copy = lane.copies().query(s.event);
    if (copy == CopyState::failed)
      throw Error(Reason::copy_failed, "a gather failed: " + lane.copies().why());
    if (copy == CopyState::pending) return false;
    lane.record(Stage::gather_done, t.id, s.chunk);
    if (++t.gathered == t.chunks.size()) t.state->release_sources();
    std::uint64_t const bytes = t.chunks[s.chunk].bytes;
    std::byte* const message = t.placed ? s.header.data() : s.view->data();
    wire::encode(wire::DataHeader{t.endpoint->info.generation, t.id, ChunkIndex{s.chunk}, bytes,
                                  lane.digest(s)},
                 std::span<std::byte, wire::data_header_bytes>(message, wire::data_header_bytes));
    s.operation.reset();
    s.state = State::wire;
    ++t.posted;
    t.endpoint->link->send(
        lane.tag(t.endpoint->identity(t.id, MessageKind::data, ChunkIndex{s.chunk})), message,
        wire::data_header_bytes + (t.placed ? 0 : bytes), s.operation);
    lane.record(Stage::data_posted, t.id, s.chunk);
    if (s.operation.done()) retire(lane, t, s);
    return true;
  }

  /// The transport has done with the chunk. That it was sent proves nothing; only RESULT does.
  static void retire(Lane& lane, Send& t, Slot& s) {
    if (s.operation.status() != OperationStatus::ok)
      throw Error(Reason::peer_lost,
                  "DATA " + std::to_string(s.chunk) + " was not sent: " + describe(s.operation));
    lane.record(Stage::data_sent, t.id, s.chunk);
    ++t.sent;
    s.state = State::idle;
  }

  static void read_result(Lane& lane, Send& t) {
    auto const& op = t.flight->result;
    auto const result = decode_reply(op, t.flight->result_buffer, wire::decode_result);
    if (!result || result->header != expected(t, MessageKind::result))
      throw Error(Reason::integrity, "RESULT does not belong to this transfer: " + describe(op));
    if (result->reason != Reason::none)
      throw Error(result->reason, "the receiver failed: " + std::string(result->text));
    if (result->bytes != t.plan.bytes || t.posted != t.chunks.size())
      throw Error(Reason::integrity, "RESULT reports " + std::to_string(result->bytes) + " of " +
                                         std::to_string(t.plan.bytes) + " bytes");
    lane.record(Stage::result_received, t.id);
  }

  static void succeed(Lane& lane, Send& t) {
    lane.release_tags(t.flight->tags);
    lane.finish(t, Outcome{Status::landed, Reason::none, t.plan.bytes, true, true, {}});
  }

  /// The one way a send fails. What may still be touched goes into the generation's remains, all of
  /// it together.
  static void funnel(Lane& lane, Send& t, std::exception_ptr cause) noexcept {
    Outcome o = lane.outcome_of(cause);
    bool const all_posted = !t.chunks.empty() && t.posted == t.chunks.size();
    // A RESULT that says failed is certain; without any RESULT everything may have landed.
    bool const answered = t.flight && t.flight->result.done();
    if (o.status == Status::failed && all_posted && !answered) o.status = Status::unconfirmed;
    o.bytes = 0;
    bool const gathering =
        t.flight && std::any_of(t.flight->begin(), t.flight->end(),
                                [](Slot const& s) { return s.state == State::copying; });
    o.sources_quiescent = !gathering || !Lane::Types::retires_generations;
    if (t.flight && !lane.wind_down(t, o)) {
      lane.tell_peer(t, o);
      lane.sweep(t);
    }
    lane.finish(t, std::move(o));
  }

  static wire::Header expected(Send const& t, MessageKind kind) noexcept {
    wire::Header h = t.header();
    h.kind = kind;
    return h;
  }
  template <class Decode>
  static auto decode_reply(Operation const& op, std::span<std::byte const> buffer, Decode decode)
      -> decltype(decode(buffer)) {
    if (op.status() != OperationStatus::ok)
      throw Error(Reason::peer_lost, "a reply was not received: " + describe(op));
    return decode(buffer.first(std::min<std::uint64_t>(op.bytes(), buffer.size())));
  }
  static std::string describe(Operation const& op) {
    return std::to_string(op.bytes()) + " bytes, " + std::string(op.text());
  }
};

}  // namespace b10::core
