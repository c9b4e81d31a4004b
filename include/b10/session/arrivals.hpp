#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/messages.hpp>
#include <b10/time.hpp>

namespace b10::session {

/// What came for a request before its session.
struct EarlyArrivals {
  std::vector<std::pair<NodeId, RequestData>> requests{};  ///< in order
  std::vector<NodeId> cancels{};
};

/// Messages without a session: those that are early are kept for a while, those that are late are
/// known by the id that they name. Guarded by the node's lock.
class Arrivals {
 public:
  Arrivals(Duration early_limit, std::size_t early_max, Duration retired_limit)
      : early_limit_(early_limit), retired_limit_(retired_limit), early_max_(early_max) {}

  /// False if the id is retired or no more are kept.
  [[nodiscard]] bool keep(NodeId from, RequestData const& m, Instant now) {
    if (is_retired(m.request)) return false;
    auto* const entry = note(m.request, now);
    if (!entry) return false;
    entry->requests.emplace_back(from, m);
    return true;
  }
  void cancel(NodeId from, RequestId request, Instant now) {
    if (is_retired(request)) return;
    if (auto* const entry = note(request, now)) entry->cancels.push_back(from);
  }
  [[nodiscard]] EarlyArrivals take(RequestId request) {
    auto node = early_.extract(request);
    if (!node) return {};
    auto& entry = node.mapped().arrivals;
    kept_ -= entry.requests.size() + entry.cancels.size();
    return std::move(entry);
  }
  /// `reason`: why its session ended, none if well.
  void retire(RequestId request, Reason reason, Instant now) {
    (void)take(request);
    if (retired_.emplace(request, Retired{now + retired_limit_, reason}).second)
      retired_order_.push_back(request);
  }
  [[nodiscard]] bool is_retired(RequestId request) const { return retired_.count(request) > 0; }
  /// Whether its session was cancelled: who comes too late is told the same.
  [[nodiscard]] bool was_cancelled(RequestId request) const {
    auto const it = retired_.find(request);
    return it != retired_.end() && it->second.reason == Reason::cancelled;
  }

  void expire(Instant now) {
    while (!retired_order_.empty() && retired_.at(retired_order_.front()).expires <= now) {
      retired_.erase(retired_order_.front());
      retired_order_.pop_front();
    }
    while (!early_order_.empty() && early_order_.front().second <= now) {
      auto const it = early_.find(early_order_.front().first);
      if (it != early_.end() && it->second.expires <= now) (void)take(it->first);
      early_order_.pop_front();
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return kept_; }
  [[nodiscard]] std::size_t retired() const noexcept { return retired_.size(); }

 private:
  struct Entry {
    EarlyArrivals arrivals{};
    Instant expires{};
  };
  struct Retired {
    Instant expires{};
    Reason reason = Reason::none;
  };
  EarlyArrivals* note(RequestId request, Instant now) {
    if (kept_ >= early_max_) return nullptr;
    auto const [it, added] = early_.try_emplace(request);
    if (added) {
      it->second.expires = now + early_limit_;
      early_order_.emplace_back(request, it->second.expires);
    }
    ++kept_;
    return &it->second.arrivals;
  }

  Duration const early_limit_;
  Duration const retired_limit_;
  std::size_t const early_max_;
  std::size_t kept_ = 0;
  std::map<RequestId, Entry> early_{};
  std::deque<std::pair<RequestId, Instant>> early_order_{};
  std::map<RequestId, Retired> retired_{};
  std::deque<RequestId> retired_order_{};
};

}  // namespace b10::session
