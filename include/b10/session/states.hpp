#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/types.hpp>

namespace b10::session {

/// Where a session stands. error and cancelled are sticky.
enum class SessionStatus : std::uint8_t {
  init,
  ready,         ///< the other side is known
  transferring,  ///< something is under way
  kv_transferred,
  fully_transferred,  ///< the AUX record too
  error,
  cancelled,
};

[[nodiscard]] constexpr std::string_view to_string(SessionStatus s) noexcept {
  constexpr std::string_view names[] = {
      "init", "ready", "transferring", "kv_transferred", "fully_transferred", "error", "cancelled"};
  return to_integer(s) < std::size(names) ? names[to_integer(s)] : "?";
}
/// Nothing further will happen.
[[nodiscard]] constexpr bool ended(SessionStatus s) noexcept {
  return s >= SessionStatus::fully_transferred;
}

/// Why a session ended other than well.
struct Ending {
  Reason reason = Reason::none;  ///< one code per different reaction of the caller
  std::string why{};             ///< a sentence
};
/// Of what a call has thrown. An agent throws Error; anything else is a wrong call to it.
[[nodiscard]] inline Ending ending_of(std::exception const& e) {
  auto const* const error = dynamic_cast<Error const*>(&e);
  return {error ? error->reason() : Reason::invalid_request, e.what()};
}

/// Who may touch the bytes of one task for one peer: never a value of the request's phase.
enum class Ownership : std::uint8_t {
  admitted,
  not_submitted,  ///< and never will be
  submitted,
  done,
  in_doubt,  ///< it has ended, but its sources may still be read
};
[[nodiscard]] constexpr bool drained(Ownership o) noexcept {
  return o == Ownership::not_submitted || o == Ownership::done;
}

enum class Activity : std::uint8_t { idle, active, draining };
enum class RequestPhase : std::uint8_t { prefilling, done, failed };

/// Whether pages may go back to the block manager. Reads the activity only: a request that failed
/// or is done may still be read from.
[[nodiscard]] constexpr bool pages_may_be_freed(RequestPhase /*phase*/, Activity a) noexcept {
  return a == Activity::idle;
}

enum class CancelAnswer : std::uint8_t {
  drained,    ///< nothing is under way: pages may go
  in_flight,  ///< keep the pages and the session, ask again
};
enum class CloseAnswer : std::uint8_t { closed, refused };

/// What a status is derived from.
struct StatusFacts {
  bool failed = false;     ///< stored terminal
  bool cancelled = false;  ///< stored terminal
  bool task_failed = false;
  bool last_given = false;
  bool kv_done = false;  ///< all tasks
  bool aux_done = false;
  bool transferring = false;
  bool peer_known = false;
};
[[nodiscard]] constexpr SessionStatus derive(StatusFacts f) noexcept {
  if (f.cancelled) return SessionStatus::cancelled;
  if (f.failed || f.task_failed) return SessionStatus::error;
  if (f.last_given && f.kv_done)
    return f.aux_done ? SessionStatus::fully_transferred : SessionStatus::kv_transferred;
  if (f.transferring) return SessionStatus::transferring;
  return f.peer_known ? SessionStatus::ready : SessionStatus::init;
}

/// A request id was used and its session is gone: no new session under that id. Use a new one.
class SessionRetired : public Error {
 public:
  explicit SessionRetired(RequestId request)
      : Error(Reason::refused, "request " + std::to_string(to_integer(request)) +
                                   " is retired: its session was closed or ended; use a new id") {}
};

/// What one rank knows of the requests of a step.
struct RankView {
  std::set<RequestId> completed{};
  std::set<RequestId> failed{};
  std::set<RequestId> quiesced{};  ///< nothing under way here
};
struct Consensus {
  std::set<RequestId> completed{};  ///< by all ranks, and failed by none
  std::set<RequestId> failed{};     ///< by any rank
  std::set<RequestId> retired{};    ///< quiesced on all ranks: ids and pages may go
};

/// What all ranks agree on. `all_gather(RankView) -> std::vector<RankView>` is the engine's
/// collective; each rank gets the same answer. A failed request is retired, and so reported, only
/// after all ranks have stopped.
template <class AllGather>
[[nodiscard]] Consensus agree(RankView const& own, AllGather&& all_gather) {
  std::vector<RankView> const views = all_gather(own);
  Consensus out;
  auto const by_all = [&](std::set<RequestId> RankView::*set) {
    std::set<RequestId> common = views.empty() ? std::set<RequestId>{} : views[0].*set;
    for (auto const& v : views)
      std::erase_if(common, [&](RequestId r) { return (v.*set).count(r) == 0; });
    return common;
  };
  for (auto const& v : views) out.failed.insert(v.failed.begin(), v.failed.end());
  out.completed = by_all(&RankView::completed);
  std::erase_if(out.completed, [&](RequestId r) { return out.failed.count(r) > 0; });
  out.retired = by_all(&RankView::quiesced);
  return out;
}

}  // namespace b10::session
