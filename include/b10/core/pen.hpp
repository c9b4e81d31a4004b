#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <b10/core/endpoint.hpp>
#include <b10/core/tag_registry.hpp>
#include <b10/metrics.hpp>
#include <b10/quarantine.hpp>

namespace b10::core {

/// What the pen works on.
template <class Lane, class S, class Q>
struct PenContext {
  Lane& lane;
  S& staging;
  TagRegistry& registry;
  Q const& quarantine;
  Metrics& metrics;
  Instant now;
};

/// How long a draining endpoint may take to get its last replies out before it is closed all the
/// same, and for how long a superseded one waits for transfers that the peer may still begin on it.
inline constexpr Duration drain_limit = seconds(1);

/// Takes note of local copies that have ended since their transfer failed. Its sources are quiet
/// only when all of its gathers have ended.
template <class S, class T, class Context>
void collect_copies(Endpoint<S, T>& e, Context const& c) {
  std::vector<std::shared_ptr<TransferState>> gathered;
  auto& copies = e.remains.copies;
  std::erase_if(copies, [&](PendingCopy<S>& copy) {
    if (c.lane.copies().query(copy.event) == CopyState::pending) return false;
    if (copy.grant) c.lane.end_copy(*copy.grant);
    if (copy.sources) gathered.push_back(std::move(copy.sources));
    return true;
  });
  for (auto const& sources : gathered)
    if (std::none_of(copies.begin(), copies.end(),
                     [&](auto const& copy) { return copy.sources == sources; }))
      sources->release_sources();
}

/// Ends the worker, and only then gives up the memory it could have touched.
template <class S, class T, class Context>
void destroy(Endpoint<S, T>& e, Context const& c) {
  collect_copies(e, c);
  e.link.reset();
  for (auto& v : e.remains.views) {
    if (e.remains.copies.empty())
      c.staging.drop(std::move(v));
    else
      c.staging.abandon(std::move(v));  // a copy engine may still use it: never unmapped
  }
  c.registry.forget(e.remains.tags);
  // Only when the lane itself ends: such a copy may still read its span list, so that is never
  // freed either.
  if (!e.remains.copies.empty()) {
    for (auto& f : e.remains.flights) (void)f.release();
    (void)new auto(std::move(e.reach));  // nor is the peer's staging that it may write
  }
  e.remains = {};
  e.replies.clear();
}

/// Past its time, and a local copy has never ended: the memory leaves the pool's books for good,
/// the worker goes.
template <class S, class T, class Context>
void abandon(Endpoint<S, T>& e, Context const& c) {
  e.abandoned = true;
  e.link.reset();
  for (auto& v : e.remains.views) c.staging.abandon(std::move(v));
  e.remains.views.clear();
}

/// For a set that holds no identities: its generation goes on after a failure, and only the views
/// sit out for as long as the policy says. Operations stay at their address while they are pending.
template <class S, class T, class Context>
void release_served(Endpoint<S, T>& e, Context const& c) {
  bool const copying = !e.remains.copies.empty();
  Sentence const s = c.quarantine.sentence(c.now - e.swept_at, copying);
  if (e.remains.empty() || s == Sentence::hold) return;
  for (auto& v : e.remains.views)
    s == Sentence::recycle ? c.staging.recycle(std::move(v)) : c.staging.drop(std::move(v));
  e.remains.views.clear();
  if (!copying) std::erase_if(e.remains.flights, [](auto const& f) { return !f->pending(); });
}

/// Looks after one endpoint: lets its replies go, closes it when it is over and nobody uses it,
/// keeps it in the pen for as long as the quarantine policy says. True when it is gone and can be
/// erased.
template <class S, class T, class Context>
bool tend(Endpoint<S, T>& e, Context const& c) {
  using State = typename Endpoint<S, T>::State;
  // A send that did not end well may still be read from: its buffer stays until its link has gone.
  std::erase_if(e.replies, [](auto const& r) {
    return r->operation.done() && r->operation.status() == OperationStatus::ok;
  });
  collect_copies(e, c);
  constexpr bool retires = std::remove_cvref_t<decltype(c.quarantine)>::holds_identities;
  if constexpr (!retires) release_served(e, c);
  if (e.users > 0 || !e.winding.empty()) return false;
  if (e.state == State::superseded && c.now - e.superseded_at >= drain_limit)
    e.state = State::draining;
  if (e.state < State::draining) {
    // Only when nobody uses the link: a chunk may well be here before its receive is posted.
    if constexpr (retires) c.metrics.unexpected_sunk.add(e.link->sink_unexpected());
    return false;
  }

  if (!e.penned) {
    if (e.closing_since == Instant{}) e.closing_since = c.now;
    bool const replying = std::any_of(e.replies.begin(), e.replies.end(),
                                      [](auto const& r) { return r->operation.pending(); });
    if (e.state == State::draining && replying && c.now - e.closing_since < drain_limit)
      return false;
    if (e.state == State::draining) e.link->bye();
    e.link->retire();
    if (e.remains.empty() && e.replies.empty()) {
      destroy(e, c);  // nothing uncertain happened here
      return true;
    }
    e.state = State::down;
    e.penned = true;
    if (e.remains.empty()) e.swept_at = c.now;  // only replies: as uncertain as any other send
    c.metrics.generations_penned.set(c.metrics.generations_penned.get() + 1);
  }
  bool const copying = !e.remains.copies.empty();
  Duration const age = c.now - e.swept_at;
  // A copy under way reads its span list, whatever the policy thinks of its staging.
  if (copying || c.quarantine.sentence(age, copying) == Sentence::hold) {
    bool const overdue = c.quarantine.sentence(age, false) != Sentence::hold;
    if (copying && overdue && !e.abandoned) abandon(e, c);
    return false;
  }
  destroy(e, c);
  c.metrics.generations_penned.set(c.metrics.generations_penned.get() - 1);
  return true;
}

}  // namespace b10::core
