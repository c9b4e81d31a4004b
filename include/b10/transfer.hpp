#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <b10/outcome.hpp>
#include <b10/time.hpp>

namespace b10 {

/// Where a transfer's time went, on the sender, by the lane's clock (one reading per turn of its
/// loop).
struct StageTimes {
  Duration queued{};      ///< waiting for admission
  Duration connecting{};  ///< waiting for a link
  Duration ready{};       ///< CONTROL to READY
  Duration data{};        ///< READY to the last DATA sent
  Duration result{};      ///< last DATA sent to RESULT
};

namespace core {

/// Calls a user's callback; what it throws stays here: it is nobody's but its own failure.
template <class Callback>
void contained(Callback const& callback, Outcome const& outcome) noexcept {
  try {
    callback(outcome);
  } catch (...) {
  }
}

/// Shared by a Transfer and its lane. Thread-safe.
class TransferState {
 public:
  using Callback = std::function<void(Outcome const&)>;
  /// What a handle asks of the lane; posted through the door. Must stay callable after the lane is
  /// gone.
  using Request = std::function<void()>;

  void on_done(Callback callback) {
    std::unique_lock lock(mutex_);
    if (!outcome_) {
      callback_ = std::move(callback);
      return;
    }
    lock.unlock();
    contained(callback, *outcome_);
  }
  /// Lane: the first call decides, later ones change nothing. Returns whether it was the first.
  bool finish(Outcome outcome, StageTimes const& stages) {
    Callback callback;
    {
      std::lock_guard lock(mutex_);
      if (outcome_) return false;
      sources_released_ = sources_released_ || outcome.sources_quiescent;
      outcome_ = std::move(outcome);
      stages_ = stages;
      callback = std::move(callback_);
    }
    // Before anyone who waits goes on: what the callback refers to may end with the wait.
    if (callback) contained(callback, *outcome_);
    std::lock_guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
    return true;
  }
  void release_sources() {
    std::lock_guard lock(mutex_);
    sources_released_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool sources_released() const {
    std::lock_guard lock(mutex_);
    return sources_released_;
  }
  [[nodiscard]] std::optional<Outcome> outcome() const {
    std::lock_guard lock(mutex_);
    return outcome_;
  }
  [[nodiscard]] StageTimes stages() const {
    std::lock_guard lock(mutex_);
    return stages_;
  }
  /// `drive`: in manual mode the caller's own thread turns the lane; empty otherwise.
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
  [[nodiscard]] bool ended() const { return told_; }              // under the lock
  [[nodiscard]] bool quiet() const { return sources_released_; }  // under the lock

  Request cancel;  ///< set before the state is shared
  Request drive;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Outcome> outcome_;
  StageTimes stages_;
  bool told_ = false;
  bool sources_released_ = false;
  Callback callback_;
};

}  // namespace core

/// Handle of one WRITE; copyable, any thread, may outlive the transceiver. Destroying it never ends
/// the transfer nor frees what may still be touched.
class Transfer {
 public:
  explicit Transfer(std::shared_ptr<core::TransferState> state) : state_(std::move(state)) {}

  /// The outcome, or nothing if it has not ended within `limit`; waiting changes nothing.
  [[nodiscard]] std::optional<Outcome> wait(Duration limit) const {
    state_->wait(limit, [](auto& s) { return s.ended(); });
    return state_->outcome();
  }
  [[nodiscard]] std::optional<Outcome> outcome() const { return state_->outcome(); }
  /// True once no gather of this transfer can read the source spans any more: they may be recycled,
  /// usually well before RESULT. Stays true.
  [[nodiscard]] bool sources_released() const { return state_->sources_released(); }
  [[nodiscard]] bool wait_sources_released(Duration limit) const {
    return state_->wait(limit, [](auto& s) { return s.quiet(); });
  }
  /// Asks the lane to end it. Nothing is claimed quiet that is not: look at sources_released().
  void cancel() const { state_->cancel(); }
  /// Called once with the outcome, before wait() returns, on the lane's thread (or here, if it has
  /// ended). Must not block; what it throws is ignored.
  void on_done(core::TransferState::Callback callback) const {
    state_->on_done(std::move(callback));
  }
  [[nodiscard]] StageTimes stages() const { return state_->stages(); }

 private:
  std::shared_ptr<core::TransferState> state_;
};

}  // namespace b10
