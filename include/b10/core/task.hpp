#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace b10::core {

/// A pipeline: starts suspended, ends suspended, owned by its transfer. It catches everything
/// itself (its failure funnel), so an exception that leaves it is a defect and ends the process.
class Task {
 public:
  struct promise_type {
    Task get_return_object() noexcept {
      return Task{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  void start() { handle_.resume(); }
  [[nodiscard]] bool done() const noexcept { return handle_ && handle_.done(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}
  std::coroutine_handle<promise_type> handle_{};
};

}  // namespace b10::core
