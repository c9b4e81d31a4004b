// Part of b10/transport/ucx.hpp: the sockets, and the life of links that are up.
#pragma once

#include <b10/transport/ucx.hpp>

namespace b10::transport {

/// Reads the clock, at most every stride_ calls; looks at the sockets when look_interval has
/// passed. The stride follows the caller: one that calls rarely is served in every call.
template <class Handler>
unsigned Ucx::glance(Handler& handler) {
  auto const now = steady_now();
  auto const passed = now - glanced_;
  if (passed > look_interval) {
    stride_ = 1;
  } else if (passed < microseconds(5)) {
    stride_ = std::min(2 * stride_, stride_max);
  }
  countdown_ = stride_;
  glanced_ = now;
  return look_now_ || now - looked_ >= look_interval ? look(now, handler) : 0;
}

template <class Handler>
unsigned Ucx::look(Instant now, Handler& handler) {
  looked_ = now;
  look_now_ = false;
  unsigned events = 0;
  poll_sockets();
  accept_contacts(now);
  // The handler may call connect(), so both lists may grow meanwhile.
  for (std::size_t i = 0; i < contacts_.size(); ++i) {
    auto& c = *contacts_[i];
    if (!c.over()) events += advance(c, now, handler);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    auto const link = links_[i];
    if (link->up && !link->down) events += tend(*link, now, handler);
  }
  sweep(now);
  return events;
}

inline void Ucx::poll_sockets() {
  std::array<epoll_event, 64> events;
  auto const n = epoll_wait(sockets_epoll_->get(), events.data(), 64, 0);
  for (int i = 0; i < n; ++i) {
    auto* const socket =
        static_cast<ucx::BootstrapSocket*>(events[static_cast<std::size_t>(i)].data.ptr);
    (socket ? socket->ready : callers_wait_) = true;
  }
}

inline void Ucx::accept_contacts(Instant now) {
  for (int i = 0; callers_wait_ && i < accepts_per_look; ++i) {
    ucx::SocketAddress from;
    auto fd = ucx::accept_one(listener_, from);
    if (!fd) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      // Out of descriptors, say: the caller stays in the queue and is tried again soon.
      callers_wait_ = errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    make_room();
    auto c = std::make_unique<Contact>(ucx::Role::server, from.text(), now + options_.handshake);
    c->socket = std::make_unique<ucx::BootstrapSocket>(std::move(fd), sockets_epoll_);
    contacts_.push_back(std::move(c));
  }
  if (callers_wait_) look_now_ = true;
}

/// Strangers that say nothing must not keep out a peer: the oldest of them makes room.
inline void Ucx::make_room() {
  auto const stranger = [](auto const& c) {
    return c->role == ucx::Role::server && !c->proven && !c->over();
  };
  if (std::count_if(contacts_.begin(), contacts_.end(), stranger) <
      static_cast<std::ptrdiff_t>(options_.handshakes_max)) {
    return;
  }
  auto& oldest = **std::find_if(contacts_.begin(), contacts_.end(), stranger);
  oldest.step = Step::over;
  oldest.socket.reset();
  ++counters_.evicted;
}

/// Forgets what is over, and finds out when the next look is due.
inline void Ucx::sweep(Instant now) {
  std::erase_if(contacts_, [](auto const& c) { return c->over(); });
  std::erase_if(links_, [](auto const& l) { return !l->worker; });
  due_ = now + seconds(60);
  if (callers_wait_) due_ = now + milliseconds(10);
  auto const more = [&](ucx::BootstrapSocket const& s) {
    if (s.ready && s.open() && !s.ended()) look_now_ = true;
  };
  for (auto const& c : contacts_) {
    due_ = std::min(due_, c->deadline);
    if (c->socket) more(*c->socket);
    if (!c->failure.empty()) look_now_ = true;
  }
  for (auto const& l : links_) {
    if (!l->up || l->down) continue;
    due_ = std::min({due_, l->next_beat, l->heard + l->patience});
    more(*l->socket);
  }
}

/// Something came through UCX, or the endpoint failed.
template <class Handler>
unsigned Ucx::attend(std::shared_ptr<LinkState> const& link, Handler& handler) {
  if (!link->up) {  // its contact will see to it
    look_now_ = true;
    return 0;
  }
  auto events = deliver(*link, handler);
  if (link->down) return events;
  if (auto const* const fault = link->inbox.fault()) {
    ++counters_.bad_controls;
    take_down(*link, LinkDown::lost, fault, handler);
    return events + 1;
  }
  if (link->worker->failure() != UCS_OK) {
    // The peer may have said goodbye before it closed.
    link->socket->ready = true;
    events += listen_to(*link, steady_now(), handler);
    if (link->down) return events;
    take_down(*link, LinkDown::lost,
              std::string("the endpoint failed: ") + ucs_status_string(link->worker->failure()),
              handler);
    ++events;
  }
  return events;
}

template <class Handler>
unsigned Ucx::deliver(LinkState& link, Handler& handler) {
  unsigned events = 0;
  while (!link.down) {
    auto const frame = link.inbox.next();
    if (!frame) break;
    ++events;
    handler.on_control(link.id, *frame);
  }
  return events;
}

/// Heartbeats and what the socket says.
template <class Handler>
unsigned Ucx::tend(LinkState& link, Instant now, Handler& handler) {
  auto events = listen_to(link, now, handler);
  if (link.down) return events;
  if (now - link.heard > link.patience) {
    ++counters_.silent;
    take_down(link, LinkDown::silent,
              "no heartbeat for " + std::to_string((now - link.heard).ns / 1'000'000) +
                  " ms, limit " + std::to_string(link.patience.ns / 1'000'000) +
                  " ms (Options::heartbeat, heartbeat_misses)",
              handler);
    return events + 1;
  }
  if (now >= link.next_beat) {
    link.socket->frames.put(FrameType::heartbeat);
    link.next_beat = now + options_.heartbeat;
  }
  link.socket->write();
  return events;
}

template <class Handler>
unsigned Ucx::listen_to(LinkState& link, Instant now, Handler& handler) {
  unsigned events = 0;
  auto& socket = *link.socket;
  for (int i = 0; socket.ready && i < reads_per_look; ++i) {
    socket.read();
    while (auto const frame = socket.frames.next()) {
      ++events;
      link.heard = now;
      if (frame->type == FrameType::heartbeat) continue;
      if (frame->type == FrameType::bye) {
        socket.frames.put(FrameType::bye_ack);
        take_down(link, LinkDown::bye, "the peer ended in order", handler);
      } else if (frame->type == FrameType::bye_ack && link.bye_sent) {
        take_down(link, LinkDown::bye, "ended here in order", handler);
      } else {
        take_down(link, LinkDown::lost, "the peer broke the protocol of the bootstrap socket",
                  handler);
      }
      return events;
    }
    if (socket.frames.fault() != ucx::FrameStream::Fault::none) {
      take_down(link, LinkDown::lost, "a frame on the bootstrap socket is not authentic", handler);
      return events + 1;
    }
  }
  if (socket.ended()) {
    take_down(link, LinkDown::lost,
              "the peer closed its socket" + (socket.error().empty() ? "" : ": " + socket.error()),
              handler);
    ++events;
  }
  return events;
}

/// Reports the end of a link, once, after everything that had already arrived: a RESULT that lies
/// in UCX's queue still counts. Bounded, since a live peer could go on sending.
template <class Handler>
void Ucx::take_down(LinkState& link, LinkDown how, std::string_view why, Handler& handler) {
  int quiet = 0;
  for (int i = 0; i < 1000 && quiet < 3; ++i) {
    quiet = link.worker->progress() == 0 ? quiet + 1 : 0;
    deliver(link, handler);
    if (link.down) return;  // the handler retired or destroyed it
  }
  link.down = true;
  if (how == LinkDown::bye) {
    link.socket->write();  // stays open until retired: the peer must get the acknowledgement
  } else {
    link.socket->close();  // the peer learns at once
  }
  handler.on_link_down(link.id, how, why);
}

}  // namespace b10::transport
