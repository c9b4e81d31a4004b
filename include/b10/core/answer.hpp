#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include <b10/time.hpp>

namespace b10::core {

/// One value handed from the lane to a waiting thread.
template <class R>
class Answer {
 public:
  void give(R value) {
    std::lock_guard lock(mutex_);
    value_.emplace(std::move(value));
    given_.notify_all();
  }
  [[nodiscard]] std::optional<R> wait(Duration limit) {
    std::unique_lock lock(mutex_);
    given_.wait_for(lock, std::chrono::nanoseconds(limit.ns), [&] { return value_.has_value(); });
    return std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::optional<R> value_;
};

}  // namespace b10::core
