#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <b10/core/fence.hpp>
#include <b10/staging.hpp>

namespace b10::core {

/// Leases staging views in order of asking, one queue a side, and wakes the next when one comes
/// back.
template <Staging S>
class Views {
 public:
  explicit Views(S& staging) : staging_(staging) {}

  /// True if `view` holds one (already, or now). Else the fence is queued and woken when it may try
  /// again.
  bool take(std::optional<typename S::View>& view, Fence& fence, Use use) {
    if (view) return true;
    auto& queue = queue_of(use);
    bool const in_front = queue.empty() || queue.front() == &fence;
    if (in_front && attempt(view, use)) {
      if (!queue.empty()) queue.pop_front();
      wake(queue);  // there may be more
      return true;
    }
    if (std::find(queue.begin(), queue.end(), &fence) == queue.end()) queue.push_back(&fence);
    return false;
  }
  /// Takes one only if nobody waits for it.
  bool attempt_unqueued(std::optional<typename S::View>& view, Use use) {
    return queue_of(use).empty() && attempt(view, use);
  }
  void give_back(std::optional<typename S::View>& view) noexcept {
    if (!view) return;
    staging_.release(std::move(*view));
    view.reset();
    wake_next();
  }
  /// After anything that may have freed views: a release, a refill.
  void wake_next() noexcept {
    wake(sends_);
    wake(receives_);
  }
  void leave(Fence& fence) noexcept {
    std::erase(sends_, &fence);
    std::erase(receives_, &fence);
    wake_next();
  }

 private:
  bool attempt(std::optional<typename S::View>& view, Use use) {
    auto v = staging_.try_acquire(use);
    if (v) view.emplace(std::move(*v));
    return view.has_value();
  }
  static void wake(std::deque<Fence*>& queue) noexcept {
    if (!queue.empty()) queue.front()->wake();
  }
  std::deque<Fence*>& queue_of(Use use) noexcept { return use == Use::send ? sends_ : receives_; }

  S& staging_;
  std::deque<Fence*> sends_;
  std::deque<Fence*> receives_;
};

}  // namespace b10::core
