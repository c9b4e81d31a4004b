#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <b10/core/endpoint.hpp>
#include <b10/core/flight_recorder.hpp>
#include <b10/core/span_list.hpp>
#include <b10/core/wind_down.hpp>
#include <b10/core/wire.hpp>
#include <b10/outcome.hpp>

namespace b10::core {

/// What becomes of everything that a transfer has under way when it does not land: the common end
/// of both funnels. It comes to rest by itself, or leaves circulation together. A base of Services,
/// whose staging, tags, endpoints and metrics it works on.
template <class Services, class Types>
class Aftermath {
  using S = typename Types::Staging;
  using T = typename Types::Transport;
  using Endpoint = typename Types::Endpoint;
  using Flight = typename Types::Flight;
  using Slot = typename Types::Slot;
  using Send = typename Types::Send;
  using Receive = typename Types::Receive;
  using Leftover = core::Leftover<S>;

 public:
  void tell_peer(Send& t, Outcome const& o) noexcept {
    Endpoint& e = *t.endpoint;
    if (!link_up(e) || t.flight->result.done() || t.refused) return;
    std::array<std::byte, wire::frame_bytes_max> frame;
    (void)e.link->control(encode_abort(t, o, std::nullopt, frame));
  }
  /// Leaves a cancelled transfer to come to rest by itself, which housekeeping() sees to. False: it
  /// must be swept, because it ended in another way or its link is not well.
  [[nodiscard]] bool wind_down(Send& t, Outcome const& o) {
    Endpoint& e = *t.endpoint;
    if (!Types::winds_down || o.reason != Reason::cancelled || t.refused || t.link_lost ||
        !link_up(e))
      return false;
    wire::Unsent unsent{t.next, 0, {}};
    for (Slot const& s : *t.flight) {
      if (s.state != Slot::State::copying) continue;
      if (unsent.count == unsent.skipped.size()) return false;
      unsent.skipped[unsent.count++] = s.chunk;
    }
    std::array<std::byte, wire::frame_bytes_max> frame;
    auto const abort = encode_abort(t, o, unsent, frame);
    Leftover w = leftover(t);
    w.abort.assign(abort.begin(), abort.end());
    w.placed = t.placed;
    leave_winding(e, std::move(w));
    return true;
  }
  [[nodiscard]] bool wind_down(Receive& t, Outcome const& o) {
    Endpoint& e = *t.endpoint;
    if (!Types::winds_down || o.reason != Reason::cancelled || t.superseded ||
        (t.aborted && !t.unsent) || !link_up(e))
      return false;
    Leftover w = leftover(t);
    w.unsent = t.unsent;
    leave_winding(e, std::move(w));
    return true;
  }
  /// The failure funnels' common end: what may still be touched leaves circulation.
  template <class Transfer>
  void sweep(Transfer& t) {
    Endpoint& e = *t.endpoint;
    if constexpr (requires { t.refused; }) {
      if (t.refused && e.link) cancel_all(*e.link, *t.flight);
      if (t.refused && !t.flight->result.pending()) return self().release_tags(t.flight->tags);
    }
    self().metrics_.sweeps.add();
    quarantine(e, leftover(t));
  }
  /// Views, tags, operations and pending copies leave circulation together, and the generation
  /// takes no new transfer.
  void quarantine(Endpoint& e, Leftover&& w) {
    if (e.link) cancel_all(*e.link, *w.flight);
    for (Slot& s : *w.flight) {
      if (s.state == Slot::State::copying) {
        e.remains.copies.push_back({std::move(s.event), nullptr, nullptr});
        auto& copy = e.remains.copies.back();
        if constexpr (Types::retires_generations) {
          copy.grant = w.grant;
          copy.sources = w.sources;
        } else if (w.grant) {
          self().end_copy(
              *w.grant);  // such a set waits for no copy: memory counts as quiet at once
        }
      }
      if (s.view) e.remains.views.push_back(self().staging_.quarantine(std::move(*s.view)));
      s.view.reset();
    }
    if constexpr (Types::retires_generations) {
      auto const& tags = w.flight->tags;
      self().registry_.quarantine(tags);
      e.remains.tags.insert(e.remains.tags.end(), tags.begin(), tags.end());
      self().links_.drain(e);
    } else {
      self().release_tags(w.flight->tags);
    }
    e.remains.flights.push_back(std::move(w.flight));
    e.swept_at = self().now_;
    self().closing_endpoints_ = true;
    self().record(Stage::swept, w.header.transfer);
  }
  /// What the sender of a transfer that winds down here says. False: there is none.
  [[nodiscard]] bool hear_abort(Endpoint& e, wire::Abort const& a) {
    for (Leftover& w : e.winding) {
      if (w.sending || w.unsent || w.header.transfer != a.header.transfer) continue;
      w.unsent = a.unsent;
      if (!w.unsent) w.until = self().now_;  // it cannot say what has become of it
      self().closing_endpoints_ = true;
      return true;
    }
    return false;
  }
  /// Sees to what winds down on an endpoint.
  void advance_winding(Endpoint& e) {
    std::erase_if(e.winding, [&](Leftover& w) {
      Winding const how = WindDown<Services, Endpoint, Leftover>::advance(self(), e, w);
      if (how == Winding::under_way && self().now_ < w.until) return false;
      if (how == Winding::settled)
        settle(w);
      else
        quarantine(e, std::move(w));
      return true;
    });
  }
  /// The link has gone, or goes: nothing comes to rest by itself any more.
  void quarantine_winding(Endpoint& e) {
    for (Leftover& w : std::exchange(e.winding, {})) quarantine(e, std::move(w));
  }

 private:
  Services& self() noexcept { return static_cast<Services&>(*this); }
  [[nodiscard]] static bool link_up(Endpoint const& e) noexcept {
    return e.link && e.state != Endpoint::State::down;
  }
  static std::span<std::byte const> encode_abort(Send const& t, Outcome const& o,
                                                 std::optional<wire::Unsent> unsent,
                                                 std::span<std::byte> frame) noexcept {
    wire::Abort abort{t.header(), o.reason, o.why, unsent};
    abort.header.kind = MessageKind::abort;
    return wire::encode(abort, frame);
  }

  /// All of a transfer that is not its own any more.
  static Leftover leftover(Send& t) {
    Leftover w = take_flight(t.flight, t.plan.sources);
    w.header = t.header();
    w.sending = true;
    w.sources = t.state;
    return w;
  }
  static Leftover leftover(Receive& t) {
    Leftover w = take_flight(t.flight, t.spans);
    w.header = t.control.header;
    w.grant = t.grant;
    w.placed = t.control.placed;
    w.next = t.next;
    w.chunks = t.control.chunks;
    w.message_bytes = wire::data_header_bytes + (w.placed ? 0 : t.control.slice_bytes);
    return w;
  }
  static Leftover take_flight(std::unique_ptr<Flight>& flight, SpanList<LocalSpan>& spans) {
    Leftover w;
    w.flight = std::move(flight);
    w.flight->detach();
    if (std::any_of(w.flight->begin(), w.flight->end(),
                    [](Slot const& s) { return s.state == Slot::State::copying; }))
      w.flight->spans = std::move(spans);
    return w;
  }
  void leave_winding(Endpoint& e, Leftover&& w) {
    w.until = self().now_ + wind_down_limit;
    e.winding.push_back(std::move(w));
    self().closing_endpoints_ = true;
    self().metrics_.sweeps.add();
  }
  /// It is quiet: everything serves again.
  void settle(Leftover& w) {
    for (Slot& s : *w.flight) self().views_.give_back(s.view);
    self().release_tags(w.flight->tags);
    self().metrics_.cancels_settled.add();
    self().record(Stage::settled, w.header.transfer);
  }

  static void cancel_all(typename T::Link& link, Flight& f) noexcept {
    if (f.ready.pending()) link.cancel(f.ready);
    if (f.result.pending()) link.cancel(f.result);
    for (Slot& s : f)
      if (s.operation.pending()) link.cancel(s.operation);
  }
};

}  // namespace b10::core
