#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// Shared by the caller of connect() and the lane. Thread-safe.
class ConnectState {
 public:
  void finish(PeerId peer, std::string why) {
    std::lock_guard lock(mutex_);
    if (done_) return;
    done_ = true;
    peer_ = peer;
    error_ = std::move(why);
    changed_.notify_all();
  }
  [[nodiscard]] bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }
  /// The peer, or nothing and then error() says why.
  [[nodiscard]] std::optional<PeerId> peer() const {
    std::lock_guard lock(mutex_);
    return done_ && error_.empty() ? std::optional(peer_) : std::nullopt;
  }
  [[nodiscard]] std::string error() const {
    std::lock_guard lock(mutex_);
    return error_;
  }
  bool wait(Duration limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(limit.ns), [&] { return done_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  PeerId peer_{};
  std::string error_;
};

}  // namespace b10::core
