// The compute stage on a CPU: steps of prefill, one after the other, as a GPU's stream runs them.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <b10/host_event.hpp>
#include <b10/steady_clock.hpp>

#include "common/kv_memory.hpp"
#include "timed_agent.hpp"

namespace mini {

/// Takes its time and then fills in the pages, so that whoever does not wait for the event reads
/// what was there before. The thread sleeps meanwhile: like a GPU it takes no cycles of the CPU.
class TimedStream {
 public:
  using Event = b10::HostEvent;

  struct Fill {
    demo::KvMemory* memory;
    demo::Page page;
  };
  struct Step {
    std::vector<Fill> fills{};
    b10::Duration time{};
    Event event{};
    Stamp stamp{};
    std::function<void(b10::Instant begin, b10::Instant end)> done{};  ///< on the stream's thread
  };

  TimedStream() : thread_([this](std::stop_token stop) { run(stop); }) {}

  void launch(Step step) {
    std::lock_guard const lock(mutex_);
    steps_.push_back(std::move(step));
    ++pending_;
    changed_.notify_all();
  }
  /// Steps that have not ended.
  [[nodiscard]] std::size_t pending() const {
    std::lock_guard const lock(mutex_);
    return pending_;
  }

 private:
  void run(std::stop_token const& stop) {
    for (;;) {
      Step step;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return !steps_.empty(); })) return;
        step = std::move(steps_.front());
        steps_.pop_front();
      }
      compute(step);
      std::lock_guard const lock(mutex_);
      --pending_;
    }
  }
  static void compute(Step& step) {
    auto const begin = b10::steady_now();
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point(std::chrono::nanoseconds((begin + step.time).ns)));
    for (auto const& f : step.fills) (void)f.memory->compute({&f.page, 1});
    auto const end = b10::steady_now();
    if (step.stamp) step.stamp->store(end.ns);
    step.event.fire();
    step.done(begin, end);
  }

  mutable std::mutex mutex_{};
  std::condition_variable_any changed_{};
  std::deque<Step> steps_{};
  std::size_t pending_ = 0;
  std::jthread thread_;  // last: it uses what stands above
};

}  // namespace mini
