// Part of b10/transport/ucx.hpp: how a contact becomes a link. See frames.hpp for the messages.
#pragma once

#include <b10/transport/ucx.hpp>

namespace b10::transport {

template <class Handler>
unsigned Ucx::advance(Contact& c, Instant now, Handler& handler) {
  unsigned events = 0;
  if (!c.failure.empty()) {
    fail(c, c.failure, handler);
    return 1;
  }
  for (int i = 0; !c.over() && c.socket->ready && i < reads_per_look; ++i) {
    c.socket->read();
    // Behind the last step lie frames for the link, unless the peer changed its mind.
    while (!c.over() && (c.step != Step::wire_up || c.socket->ended())) {
      auto const frame = c.socket->frames.next();
      if (!frame) break;
      ++events;
      on_frame(c, *frame, handler);
    }
    if (!c.over() && c.socket->frames.fault() != ucx::FrameStream::Fault::none) {
      on_fault(c, c.socket->frames.fault(), handler);
    }
  }
  if (c.over()) return events + 1;
  c.socket->write();
  if (c.socket->ended()) {
    fail(c,
         c.socket->error().empty() ? std::string("the peer closed the connection; ") +
                                         c.waiting_for() + " (" + c.hint() + ")"
                                   : c.socket->error(),
         handler);
  } else if (c.link && c.link->worker->failure() != UCS_OK) {
    fail(c, std::string("the endpoint failed: ") + ucs_status_string(c.link->worker->failure()),
         handler);
  } else if (c.link && c.link->inbox.fault()) {
    ++counters_.bad_controls;
    fail(c, c.link->inbox.fault(), handler);
  } else if (now >= c.deadline) {
    if (c.role == ucx::Role::server) ++counters_.expired;
    fail(c, std::string("not connected by the deadline: ") + c.waiting_for(), handler);
  } else if (c.step == Step::wire_up) {
    return events + wire_up(c, now, handler);
  }
  return events;
}

/// Client's knock, server's knock, client's first control message, server's. UCX 1.13 aborts the
/// process when a peer dies to which it owes a reply about endpoints while its own connection to
/// that peer is not accepted yet; so nobody asks for that reply before both connections stand. A
/// knock makes UCX connect and asks for nothing. It shows that the knocker is connected, since UCX
/// sends nothing before.
template <class Handler>
unsigned Ucx::wire_up(Contact& c, Instant now, Handler& handler) {
  auto& link = *c.link;
  bool const server = c.role == ucx::Role::server;
  bool const knocks = !link.knocked && link.worker->sink_unexpected() != 0;
  link.knocked |= knocks;
  if (knocks && server) {
    // Only now: UCX then uses the client's connection for both directions, instead of a second one
    // that crosses it.
    try {
      link.connect(c.peer_worker);
    } catch (std::exception const& e) {
      refuse(c, e.what(), handler);
      return 1;
    }
  }
  bool const heard = link.knocked && link.inbox.wired();
  if ((server ? heard : knocks) && !link.sender.send(*link.worker, {})) {
    refuse(c, "the first message could not be sent", handler);
    return 1;
  }
  if (heard) bring_up(c, now, handler);
  return knocks || heard ? 1 : 0;
}

template <class Handler>
void Ucx::on_frame(Contact& c, ucx::Frame const& frame, Handler& handler) {
  bool const client = c.role == ucx::Role::client;
  try {
    if (c.step == Step::greet &&
        frame.type == (client ? FrameType::server_greet : FrameType::client_greet)) {
      on_greet(c, frame, handler);
    } else if (c.step == Step::greet && client && frame.type == FrameType::client_greet) {
      fail(c, "the connection met itself: nobody listens there", handler);
    } else if (c.step == Step::proof && frame.type == FrameType::client_proof) {
      on_proof(c, frame, handler);
    } else if (c.step == Step::identify && frame.type == FrameType::identify) {
      on_identify(c, frame, handler);
    } else if (c.step == Step::offer && frame.type == FrameType::offer) {
      on_offer(c, frame, handler);
    } else if (c.step == Step::accept && frame.type == FrameType::accept) {
      on_accept(c, frame, handler);
    } else if (c.proven && frame.type == FrameType::refuse) {
      ++counters_.refused;
      fail(c, "refused by the peer: " + ucx::printable(frame.body), handler);
    } else if (c.step == Step::confirm && frame.type == FrameType::confirm) {
      c.step = Step::wire_up;
    } else if (c.step != Step::wire_up) {
      on_fault(c, ucx::FrameStream::Fault::junk, handler);
    }
  } catch (std::exception const& e) {  // UCX would not, or no memory: one failed contact
    refuse(c, e.what(), handler);
  }
}

template <class Handler>
void Ucx::on_greet(Contact& c, ucx::Frame const& frame, Handler& handler) {
  auto const greet = ucx::Greet::decode(frame.body);
  if (!greet) return on_fault(c, ucx::FrameStream::Fault::junk, handler);
  bool const server = c.role == ucx::Role::server;
  auto& frames = c.socket->frames;
  if (server) {
    frames.put(FrameType::server_greet, ucx::Greet{protocol_version, c.nonce}.encode());
  }
  if (greet->version != protocol_version) {
    // The version is all that a stranger is told, so that both sides can name both values.
    c.socket->write();
    ++counters_.wrong_version;
    return fail(c,
                "the peer speaks protocol " + std::to_string(greet->version) + ", this node " +
                    std::to_string(protocol_version) + ": run the same version on both",
                handler);
  }
  c.keys.emplace(options_.key, server ? greet->nonce : c.nonce, server ? c.nonce : greet->nonce);
  if (server) {
    c.step = Step::proof;
  } else {
    frames.put(FrameType::client_proof, c.keys->proof(ucx::Role::client));
    secure(c);
    c.step = Step::identify;
  }
}

template <class Handler>
void Ucx::on_proof(Contact& c, ucx::Frame const& frame, Handler& handler) {
  if (!ucx::equal_in_constant_time(frame.body, c.keys->proof(ucx::Role::client))) {
    ++counters_.wrong_key;
    return fail(c, "the peer has another key", handler);
  }
  c.proven = true;
  secure(c);
  c.socket->frames.put(
      FrameType::identify,
      ucx::Identify{c.keys->proof(ucx::Role::server), options_.heartbeat, local_}.encode());
  c.step = Step::offer;
}

template <class Handler>
void Ucx::on_identify(Contact& c, ucx::Frame const& frame, Handler& handler) {
  auto identify = ucx::Identify::decode(frame.body);
  if (!identify) return on_fault(c, ucx::FrameStream::Fault::junk, handler);
  if (!ucx::equal_in_constant_time(identify->proof, c.keys->proof(ucx::Role::server))) {
    return on_fault(c, ucx::FrameStream::Fault::not_authentic, handler);
  }
  c.proven = true;
  c.info.remote = std::move(identify->hello);
  c.peer_heartbeat = identify->heartbeat;
  if (auto const why = judge(c, handler); !why.empty()) return refuse(c, why, handler);
  make_link(c);
  ucx::Offer const offer{options_.heartbeat, c.floor, local_, c.link->worker->address()};
  if (!c.socket->frames.put(FrameType::offer, offer.encode())) {
    return fail(c, "the offer is longer than a frame: shorten Hello::layout", handler);
  }
  c.step = Step::accept;
}

template <class Handler>
void Ucx::on_offer(Contact& c, ucx::Frame const& frame, Handler& handler) {
  auto offer = ucx::Offer::decode(frame.body);
  if (!offer) return on_fault(c, ucx::FrameStream::Fault::junk, handler);
  c.info.remote = std::move(offer->hello);
  c.peer_heartbeat = offer->heartbeat;
  if (auto const why = judge(c, handler); !why.empty()) return refuse(c, why, handler);
  auto const generation =
      ucx::next_generation(std::max(c.floor, offer->floor), local_, c.info.remote);
  if (!generation) {
    return refuse(c, "generations of this pair are used up: restart one of the nodes", handler);
  }
  promised_[to_integer(c.info.domain)] = *generation;
  c.info.generation = *generation;
  make_link(c);
  c.peer_worker = std::move(offer->worker);
  ucx::Accept const accept{*generation, c.link->worker->address()};
  if (!c.socket->frames.put(FrameType::accept, accept.encode())) {
    return refuse(c, "the worker address of UCX is longer than a frame", handler);
  }
  c.step = Step::confirm;
}

template <class Handler>
void Ucx::on_accept(Contact& c, ucx::Frame const& frame, Handler& handler) {
  auto const accept = ucx::Accept::decode(frame.body);
  if (!accept) return on_fault(c, ucx::FrameStream::Fault::junk, handler);
  auto const lowest = ucx::next_generation(c.floor, c.info.remote, local_);
  if (!lowest || accept->generation < *lowest ||
      (to_integer(accept->generation) - to_integer(*lowest)) % 2 != 0) {
    return refuse(c,
                  "generation " + std::to_string(to_integer(accept->generation)) +
                      " is not one that the peer may give out above " +
                      std::to_string(to_integer(c.floor)),
                  handler);
  }
  auto& promised = promised_[to_integer(c.info.domain)];
  promised = std::max(promised, accept->generation);
  c.info.generation = accept->generation;
  c.link->connect(accept->worker);
  c.socket->frames.put(FrameType::confirm);
  c.step = Step::wire_up;
}

template <class Handler>
void Ucx::bring_up(Contact& c, Instant now, Handler& handler) {
  auto& link = *c.link;
  link.worker->wired();
  link.lanes = ucx::lanes_of(link.worker->endpoint());
  if (auto const why = ucx::refuse_lanes(link.lanes, context_->wire(), context_->device());
      !why.empty()) {
    return refuse(c, why, handler);
  }
  c.info.initiator = c.role == ucx::Role::client;
  link.info = c.info;
  link.socket = std::move(c.socket);
  link.socket->frames.allow(ucx::FrameStream::small_bytes_max);
  link.socket->ready = true;  // frames for the link may have been read already
  auto const beat = std::clamp(c.peer_heartbeat, milliseconds(10), seconds(60));
  link.patience = Duration{std::max(beat, options_.heartbeat).ns *
                           static_cast<std::int64_t>(options_.heartbeat_misses)};
  link.heard = link.next_beat = now;
  link.up = true;
  c.step = Step::over;
  auto const state = std::move(c.link);
  handler.on_link(Link(state), state->info, c.connect);
  // From now on the handler remembers, unless a later one has been promised meanwhile.
  auto const domain = to_integer(state->info.domain);
  if (promised_[domain] == state->info.generation) promised_.erase(domain);
}

/// Empty if this peer may be talked to; then domain and floor are known.
template <class Handler>
std::string Ucx::judge(Contact& c, Handler& handler) {
  auto const& remote = c.info.remote;
  if (auto why = incompatibility(local_, remote); !why.empty()) return why;
  if (auto why = handler.refuse(remote, c.address); !why.empty()) return why;
  c.info.domain = ucx::pair_domain(options_.key, local_, remote);
  c.floor = handler.last_generation(remote, c.info.domain);
  auto const promised = promised_.find(to_integer(c.info.domain));
  if (promised != promised_.end()) c.floor = std::max(c.floor, promised->second);
  return {};
}

inline void Ucx::make_link(Contact& c) {
  c.link = std::make_shared<LinkState>(context_, LinkId{next_link_++}, c.keys->control(c.role),
                                       c.keys->control(ucx::other(c.role)));
  watch(sleep_epoll_, c.link->worker->event_fd(), EPOLLIN);
  links_.push_back(c.link);
}

inline void Ucx::secure(Contact& c) {
  c.socket->frames.secure(c.keys->frames(c.role), c.keys->frames(ucx::other(c.role)));
  c.socket->frames.allow(ucx::FrameStream::frame_bytes_max);
}

/// Tells a peer that has proven the key why not.
template <class Handler>
void Ucx::refuse(Contact& c, std::string const& why, Handler& handler) {
  if (c.socket && c.proven) {
    c.socket->frames.put(FrameType::refuse, as_byte_view(why));
    c.socket->write();
  }
  ++counters_.refused;
  fail(c, why, handler);
}

template <class Handler>
void Ucx::on_fault(Contact& c, ucx::FrameStream::Fault fault, Handler& handler) {
  using Fault = ucx::FrameStream::Fault;
  if (fault == Fault::oversize) {
    ++counters_.oversize;
    fail(c, "the peer sent a frame that is too long: it does not speak this protocol", handler);
  } else if (fault == Fault::not_authentic) {
    ++counters_.wrong_key;
    fail(c, "the peer has another key: compare Options::key of both nodes", handler);
  } else {
    ++counters_.junk;
    fail(c, "the peer sent something that is no frame of this protocol", handler);
  }
}

/// Ends a contact. A client's is answered; a server's vanishes without a word.
template <class Handler>
void Ucx::fail(Contact& c, std::string const& why, Handler& handler) {
  if (c.over()) return;
  c.step = Step::over;
  c.socket.reset();
  if (c.link) c.link->destroy();
  if (c.role == ucx::Role::client) {
    handler.on_connect_failed(c.connect, "connecting to " + c.address + ": " + why);
  }
}

}  // namespace b10::transport
