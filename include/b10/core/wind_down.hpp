#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include <b10/core/messages.hpp>
#include <b10/core/wire.hpp>
#include <b10/operation.hpp>
#include <b10/outcome.hpp>
#include <b10/staging.hpp>
#include <b10/time.hpp>

namespace b10::core {

/// How long a cancelled transfer may take to come to rest by itself before it is swept like any
/// other failure.
inline constexpr Duration wind_down_limit = seconds(1);

enum class Winding : std::uint8_t {
  under_way,
  settled,    ///< everything has ended by itself: nothing can be touched any more
  uncertain,  ///< something has gone wrong meanwhile
};

/// Brings a cancelled transfer to rest while its link is well, so that its memory and its
/// generation go on serving (docs/decisions/0013). The sender lets its gathers and its sends end
/// and tells which chunks it has never sent; the receiver waits for those that are on their way,
/// and takes back the receives of the others, which nothing can match. L: see b10::core::Leftover.
template <class Lane, class Endpoint, class L>
struct WindDown {
  using Slot = typename Lane::Slot;
  using State = typename Slot::State;

  /// What has come of it since the last call. Does not wait.
  static Winding advance(Lane& lane, Endpoint& e, L& w) noexcept {
    bool const copying = copies_run(lane, w);
    if (!w.abort.empty() && !(copying && w.placed)) {
      if (!e.link->control(w.abort)) return Winding::uncertain;
      w.abort.clear();
    }
    if (copying) return Winding::under_way;
    return w.sending ? advance_send(e, w) : advance_receive(lane, e, w);
  }

 private:
  static bool copies_run(Lane& lane, L& w) noexcept {
    bool running = false;
    for (Slot& s : *w.flight) {
      if (s.state != State::copying) continue;
      if (lane.copies().query(s.event) == CopyState::pending) {
        running = true;
        continue;
      }
      s.state = State::idle;
      if (w.grant) lane.end_copy(*w.grant);
    }
    if (!running && w.sources) std::exchange(w.sources, nullptr)->release_sources();
    return running;
  }

  /// The receiver answers each ABORT: with READY, if it had not sent that before, else with RESULT.
  static Winding advance_send(Endpoint& e, L& w) noexcept {
    auto& f = *w.flight;
    if (failed(f.ready) || failed(f.result)) return Winding::uncertain;
    for (Slot& s : f) {
      if (s.state != State::wire) continue;
      if (failed(s.operation)) return Winding::uncertain;
      if (s.operation.pending()) return Winding::under_way;
    }
    if (f.ready.pending()) return Winding::under_way;
    if (f.result.pending() && refused(f)) e.link->cancel(f.result);
    return f.result.pending() ? Winding::under_way : Winding::settled;
  }

  static Winding advance_receive(Lane& lane, Endpoint& e, L& w) noexcept {
    if (!w.unsent) return Winding::under_way;
    bool on_their_way = false;
    for (Slot& s : *w.flight) {
      do {
        if (s.state == State::wire && s.operation.pending()) {
          if (!w.unsent->has(s.chunk)) {
            on_their_way = true;
            break;
          }
          e.link->cancel(s.operation);
          if (s.operation.pending()) return Winding::uncertain;  // something has come all the same
        } else if (s.state == State::wire && failed(s.operation)) {
          return Winding::uncertain;
        }
        s.state = State::idle;
      } while (receive_next(lane, e, w, s));
    }
    return on_their_way ? Winding::under_way : Winding::settled;
  }

  /// A chunk may have left before its receive was posted: it is received too, so that its sender
  /// gets rid of it, and thrown away.
  static bool receive_next(Lane& lane, Endpoint& e, L& w, Slot& s) noexcept {
    auto const end = std::min(w.unsent->next, w.chunks);
    while (w.next < end && w.unsent->has(w.next)) ++w.next;
    if (w.next >= end || !s.view) return false;
    s.chunk = w.next++;
    s.state = State::wire;
    s.operation.reset();
    auto* const to = w.placed ? s.header.data() : s.view->data();
    e.link->receive(lane.tag(e.identity(w.header.transfer, MessageKind::data, ChunkIndex{s.chunk})),
                    to, w.message_bytes, s.operation);
    return true;
  }

  static bool failed(Operation const& op) noexcept {
    return op.done() && op.status() != OperationStatus::ok;
  }
  template <class Flight>
  static bool refused(Flight const& f) noexcept {
    auto const bytes = std::min<std::uint64_t>(f.ready.bytes(), f.ready_buffer.size());
    auto const ready = wire::decode_ready(std::span(f.ready_buffer).first(bytes));
    return ready && ready->reason != Reason::none;
  }
};

}  // namespace b10::core
