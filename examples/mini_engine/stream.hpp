// The compute stage: steps of prefill, one after the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <b10/host_event.hpp>
#include <b10/steady_clock.hpp>

#include "common/kv_memory.hpp"
#include "options.hpp"
#include "timed_agent.hpp"

namespace mini {

/// A step takes its time and then fills in pages, so that whoever does not wait for its event reads
/// what was there before.
struct Step {
  struct Fill {
    demo::KvMemory* memory;
    demo::Page page;
  };
  std::vector<Fill> fills{};
  b10::Duration time{};
  Stamp stamp{};
  std::function<void(b10::Instant begin, b10::Instant end)> done{};  ///< on the stream's thread

  void ended(b10::Instant begin, b10::Instant end) const {
    if (stamp) stamp->store(end.ns);
    done(begin, end);
  }
};

/// What a transfer waits for.
template <class Event>
struct Launched {
  Event event{};                  ///< fires when the pages are filled
  std::shared_ptr<void> owner{};  ///< keeps it, where the event itself does not
};

/// A thread that does what it is given, in order.
template <class Work>
class Worker {
 public:
  explicit Worker(std::function<void(Work&)> run)
      : run_(std::move(run)), thread_([this](std::stop_token stop) { loop(stop); }) {}

  void push(Work work) {
    std::lock_guard const lock(mutex_);
    queue_.push_back(std::move(work));
    ++pending_;
    changed_.notify_all();
  }
  /// What has not ended.
  [[nodiscard]] std::size_t pending() const {
    std::lock_guard const lock(mutex_);
    return pending_;
  }

 private:
  void loop(std::stop_token const& stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !queue_.empty(); })) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      run_(work);
      lock.lock();
      --pending_;
    }
  }

  std::function<void(Work&)> run_;
  mutable std::mutex mutex_{};
  std::condition_variable_any changed_{};
  std::deque<Work> queue_{};
  std::size_t pending_ = 0;
  std::jthread thread_;  // last: it uses what stands above
};

/// Steps on a CPU. The thread sleeps while a step takes its time: like a GPU it takes no cycles.
class TimedStream {
 public:
  using Event = b10::HostEvent;

  explicit TimedStream(Options const&) {}
  [[nodiscard]] Launched<Event> launch(Step step) {
    auto event = Event::create();
    worker_.push({std::move(step), event});
    return {event, nullptr};
  }
  [[nodiscard]] std::size_t pending() const { return worker_.pending(); }

 private:
  using Work = std::pair<Step, Event>;
  static void run(Work& work) {
    auto& [step, event] = work;
    auto const begin = b10::steady_now();
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point(std::chrono::nanoseconds((begin + step.time).ns)));
    for (auto const& f : step.fills) (void)f.memory->compute({&f.page, 1});
    auto const end = b10::steady_now();
    if (step.stamp) step.stamp->store(end.ns);  // before a transfer can end
    event.fire();
    step.done(begin, end);
  }

  Worker<Work> worker_{run};
};

}  // namespace mini
