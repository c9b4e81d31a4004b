#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/core/memory_map.hpp>
#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/transfer.hpp>
#include <b10/types.hpp>

namespace b10 {

namespace core {
class GrantRecord;
}

/// Proof that nothing of this node can touch these spans any more. Only B10 makes one; move-only,
/// so that it is redeemed once.
class Quiescent {
 public:
  Quiescent(Quiescent&&) = default;
  Quiescent& operator=(Quiescent&&) = default;
  [[nodiscard]] std::vector<LocalSpan> const& spans() const noexcept { return spans_; }
  [[nodiscard]] RequestId request() const noexcept { return request_; }

 private:
  friend class Grant;
  Quiescent(RequestId request, std::vector<LocalSpan> spans)
      : request_(request), spans_(std::move(spans)) {}
  RequestId request_;
  std::vector<LocalSpan> spans_;
};

namespace core {

/// Shared by a Grant and the lane: the permission, and the outcomes of the WRITEs that used it.
/// Thread-safe.
class GrantRecord {
 public:
  using Callback = std::function<void(Outcome const&)>;

  GrantRecord(RequestId r, std::shared_ptr<GrantState> s, std::vector<LocalSpan> spans_)
      : request(r), state(std::move(s)), spans(std::move(spans_)) {}

  void push(Outcome const& outcome) {
    std::unique_lock lock(mutex_);
    if (Callback const callback = callback_) {
      lock.unlock();
      contained(callback, outcome);
    } else {
      outcomes_.push_back(outcome);
    }
    changed_.notify_all();
  }
  /// Lane, after a copy under a revoked grant has ended.
  void notify() {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void on_outcome(Callback callback) {
    std::deque<Outcome> earlier;
    {
      std::lock_guard lock(mutex_);
      callback_ = callback;
      earlier.swap(outcomes_);
    }
    for (Outcome const& o : earlier) contained(callback, o);
  }
  [[nodiscard]] std::optional<Outcome> pop() {
    std::lock_guard lock(mutex_);
    if (outcomes_.empty()) return std::nullopt;
    Outcome o = std::move(outcomes_.front());
    outcomes_.pop_front();
    return o;
  }
  template <class Done>
  bool wait(Duration limit, Done done) {
    std::unique_lock lock(mutex_);
    if (!drive)
      return changed_.wait_for(lock, std::chrono::nanoseconds(limit.ns),
                               [&] { return done(*this); });
    if (done(*this)) return true;  // without a look at the clock
    auto const until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit.ns);
    while (!done(*this)) {
      lock.unlock();
      drive();
      if (std::chrono::steady_clock::now() >= until) return false;
      lock.lock();
    }
    return true;
  }
  [[nodiscard]] bool has_outcome() const { return !outcomes_.empty(); }  // under the lock

  /// Whether the peer of that name may use it. What the engine's own check throws is a no.
  [[nodiscard]] bool admits_peer(std::string_view name) const noexcept {
    try {
      return !admits || admits(name);
    } catch (...) {
      return false;
    }
  }

  /// Takes the request out of the memory map, once: a later grant of the same id is not touched.
  void forget_once() {
    if (!forgotten_.exchange(true)) forget();
  }

  RequestId const request;
  std::shared_ptr<GrantState> const state;
  std::vector<LocalSpan> const spans;
  std::function<void()> revoked;                      ///< tells the lane; callable after it is gone
  std::function<void()> forget;                       ///< takes the request out of the memory map
  std::function<void()> drive;                        ///< manual mode: turns the lane
  std::function<bool(std::string_view peer)> admits;  ///< empty: every peer

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outcome> outcomes_;
  Callback callback_;
  std::atomic<bool> forgotten_{false};
};

}  // namespace core

/// Permission for peers to write one request's spans; owned by the receiver's engine. Move-only.
/// Destroying it revokes it: a transfer under way ends, nothing further lands. Any thread.
class Grant {
 public:
  explicit Grant(std::shared_ptr<core::GrantRecord> record) : record_(std::move(record)) {}
  Grant(Grant&&) = default;
  Grant& operator=(Grant&& other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~Grant() {
    if (!record_) return;
    record_->state->revoke();
    record_->revoked();
    if (record_->state->quiescent()) record_->forget_once();
  }

  /// The next WRITE's outcome under this grant, or nothing within `limit`.
  [[nodiscard]] std::optional<Outcome> next(Duration limit) const {
    record_->wait(limit, [](auto& r) { return r.has_outcome(); });
    return record_->pop();
  }
  /// Called for each WRITE that ends under this grant, on the lane's thread (here for those that
  /// ended before), instead of next(). Must not block; what it throws is ignored.
  void on_outcome(core::GrantRecord::Callback callback) const {
    record_->on_outcome(std::move(callback));
  }
  /// Ends the permission; the proof when nothing can write the spans any more, or nothing if a copy
  /// still runs after `limit` (call again). Once a proof has been given out there is no second.
  [[nodiscard]] std::optional<Quiescent> revoke(Duration limit) {
    if (!record_) return std::nullopt;
    record_->state->revoke();
    record_->revoked();
    if (!record_->wait(limit, [](auto& r) { return r.state->quiescent(); })) return std::nullopt;
    record_->forget_once();
    auto const record = std::exchange(record_, nullptr);
    return Quiescent{record->request, record->spans};
  }
  [[nodiscard]] RequestId request() const noexcept { return record_->request; }

 private:
  std::shared_ptr<core::GrantRecord> record_;
};

}  // namespace b10
