#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <b10/session/messages.hpp>
#include <b10/session/peer_map.hpp>
#include <b10/time.hpp>

namespace b10::session {

struct SessionTimes {
  Duration operation = seconds(60);  ///< each transfer, from its submit
  Duration session = seconds(60);    ///< sender: from the last chunk; receiver: from receive()
};

/// What a node gives its sessions. Outlives them; any thread.
template <class A>
struct SessionServices {
  A& agent;
  NodeShape const& shape;
  SessionTimes const times;
  std::function<void(PeerInfo const&, Message)> post;  ///< never blocks; order per peer is kept
  std::function<void(Duration)> turn;                  ///< one round of progress, at most that long
  std::function<void()> wake;
};

/// Turns the node until `done()` or the limit has passed, by the agent's clock.
template <class A, class Done>
bool wait_until(SessionServices<A>& services, Duration limit, Done&& done) {
  auto const until = services.agent.now() + limit;
  for (;;) {
    services.turn(Duration{});  // what has arrived counts before the deadline
    if (done()) return true;
    auto const left = until - services.agent.now();
    if (left <= Duration{}) return false;
    services.turn(std::min(left, milliseconds(1)));
  }
}

}  // namespace b10::session
