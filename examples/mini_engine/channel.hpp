// What the two executors say to each other, beside sessions: an engine's RPC.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "common/channel.hpp"
#include "common/peer_process.hpp"
#include "common/trace.hpp"
#include "timeline.hpp"

namespace mini {

enum class Kind : std::uint32_t {
  hello,    ///< decode: the secret, and where its plane is
  ready,    ///< prefill: registered with decode
  compute,  ///< decode: a request
  done,     ///< prefill: it has ended here, nothing of it is held; what ran when
  drain,    ///< decode: no more requests
  drained,  ///< prefill: nothing is held; what was found
};
using Message = demo::BasicMessage<Kind>;
using Channel = demo::BasicPlane<Kind>;
using PeerProcess = demo::BasicPeerProcess<Channel>;

inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

/// A request as prefill hears of it.
struct Order {
  demo::Request request{};
  std::uint64_t cancel_at = never;  ///< chunk before which prefill gives the request up
  std::uint64_t stall_at = never;   ///< chunk that is never computed
};
[[nodiscard]] inline Message to_message(std::uint64_t id, Order const& o) {
  Message m{Kind::compute, id, {o.request.number, o.request.tokens, o.cancel_at, o.stall_at}};
  m.numbers.insert(m.numbers.end(), o.request.hashes.begin(), o.request.hashes.end());
  return m;
}
[[nodiscard]] inline Order to_order(Message const& m) {
  auto const& n = m.numbers;
  return {{n.at(0), n.at(1), {n.begin() + 4, n.end()}}, n.at(2), n.at(3)};
}

/// What prefill reports of a request.
struct Report {
  std::uint64_t reused_tokens = 0;
  std::vector<Event> events{};
};
[[nodiscard]] inline Message to_message(std::uint64_t id, Report const& r) {
  Message m{Kind::done, id, {r.reused_tokens}};
  for (auto const& e : r.events)
    m.numbers.insert(m.numbers.end(),
                     {static_cast<std::uint64_t>(e.what), static_cast<std::uint64_t>(e.begin.ns),
                      static_cast<std::uint64_t>(e.end.ns), e.amount});
  return m;
}
[[nodiscard]] inline Report to_report(Message const& m) {
  Report r{m.numbers.at(0)};
  for (std::size_t i = 1; i + 4 <= m.numbers.size(); i += 4)
    r.events.push_back({static_cast<What>(m.numbers[i]),
                        m.request,
                        {static_cast<std::int64_t>(m.numbers[i + 1])},
                        {static_cast<std::int64_t>(m.numbers[i + 2])},
                        m.numbers[i + 3]});
  return r;
}

}  // namespace mini
