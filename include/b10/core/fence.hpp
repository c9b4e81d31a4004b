#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/waker.hpp>

namespace b10::core {

class Fence;

/// The deadlines of all running transfers of a lane: a binary heap that knows each fence's place,
/// so that a transfer which ends early costs log n and leaves nothing behind.
class DeadlineQueue {
 public:
  void add(Fence& f);
  void remove(Fence& f) noexcept;
  void moved(Fence& f) noexcept;
  /// Stops every fence whose deadline has passed; returns how many.
  unsigned expire(Instant now);
  [[nodiscard]] Instant nearest() const noexcept;

 private:
  void sift_up(std::size_t i) noexcept;
  void sift_down(std::size_t i) noexcept;
  void put(std::size_t i, Fence* f) noexcept;
  std::vector<Fence*> heap_{};
};

/// The wake-up point and the deadline of one transfer. Every await of a pipeline goes through
/// next() or poll(), so none can wait without the deadline. What has arrived counts before the
/// deadline: a pipeline loops `while (!arrived) co_await fence.next("READY");` and next() throws
/// only where it would have to wait.
class Fence : public Waker {
 public:
  /// `late`: the reason given when the deadline passes.
  Fence(ReadyList& ready, DeadlineQueue& deadlines, Instant start, Instant deadline,
        Reason late = Reason::deadline)
      : deadlines_(deadlines), start_(start), deadline_(deadline), key_(deadline), late_(late) {
    list = &ready;
    deadlines_.add(*this);
  }
  Fence(Fence const&) = delete;
  Fence& operator=(Fence const&) = delete;
  ~Fence() {
    deadlines_.remove(*this);
    list->remove(*this);
  }

  struct [[nodiscard]] Await {
    Fence& fence;
    char const* what;
    bool polls;
    bool await_ready() const {
      fence.throw_if_stopped(what);
      return false;
    }
    void await_suspend(std::coroutine_handle<> h) const noexcept {
      fence.waiting_ = h;
      if (polls) fence.wake();
    }
    void await_resume() const noexcept {}
  };
  /// Suspends until woken. Throws Error (deadline, or what stop() said) instead of waiting once
  /// stopped.
  Await next(char const* what) noexcept { return Await{*this, what, false}; }
  /// The same, and continues at the loop's next turn anyway: for what cannot wake, such as copy
  /// events.
  Await poll(char const* what) noexcept { return Await{*this, what, true}; }

  /// Ends the transfer at its next wait. The first reason stays.
  void stop(Reason reason, std::string text) {
    if (stopped_ == Reason::none) {
      stopped_ = reason;
      text_ = std::move(text);
    }
    wake();
  }
  void set_deadline(Instant deadline) noexcept {
    deadline_ = key_ = deadline;
    late_ = Reason::deadline;
    deadlines_.moved(*this);
  }
  [[nodiscard]] Instant start() const noexcept { return start_; }
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }
  [[nodiscard]] Reason stopped() const noexcept { return stopped_; }

  /// For the loop: continues the pipeline if it waits.
  void resume() {
    if (auto h = std::exchange(waiting_, {})) h.resume();
  }

 private:
  friend class DeadlineQueue;

  void throw_if_stopped(char const* what) const {
    if (stopped_ == Reason::none) return;
    if (stopped_ != Reason::deadline && stopped_ != Reason::queue_limit)
      throw Error(stopped_, text_ + " (while waiting for " + what + ")");
    char limit[32];
    std::snprintf(limit, sizeof limit, "%.3f s", (deadline_ - start_).seconds());
    throw Error(
        stopped_,
        std::string("time limit of ") + limit + " passed while waiting for " + what +
            (stopped_ == Reason::queue_limit ? " (Write::queue_limit)" : " (Write::deadline)"));
  }

  DeadlineQueue& deadlines_;
  Instant start_;
  Instant deadline_;
  Instant key_;  ///< deadline_, or never once it has passed
  Reason late_;
  std::size_t place_ = 0;
  Reason stopped_ = Reason::none;
  std::string text_{};
  std::coroutine_handle<> waiting_{};
};

inline void DeadlineQueue::put(std::size_t i, Fence* f) noexcept {
  heap_[i] = f;
  f->place_ = i;
}

inline void DeadlineQueue::sift_up(std::size_t i) noexcept {
  Fence* f = heap_[i];
  for (; i > 0 && f->key_ < heap_[(i - 1) / 2]->key_; i = (i - 1) / 2) put(i, heap_[(i - 1) / 2]);
  put(i, f);
}

inline void DeadlineQueue::sift_down(std::size_t i) noexcept {
  Fence* f = heap_[i];
  for (std::size_t child; (child = 2 * i + 1) < heap_.size(); i = child) {
    if (child + 1 < heap_.size() && heap_[child + 1]->key_ < heap_[child]->key_) ++child;
    if (!(heap_[child]->key_ < f->key_)) break;
    put(i, heap_[child]);
  }
  put(i, f);
}

inline void DeadlineQueue::add(Fence& f) {
  heap_.push_back(&f);
  sift_up(heap_.size() - 1);
}

inline void DeadlineQueue::remove(Fence& f) noexcept {
  std::size_t const i = f.place_;
  Fence* last = heap_.back();
  heap_.pop_back();
  if (last == &f) return;
  put(i, last);
  moved(*last);
}

inline void DeadlineQueue::moved(Fence& f) noexcept {
  sift_up(f.place_);
  sift_down(f.place_);
}

inline Instant DeadlineQueue::nearest() const noexcept {
  return heap_.empty() ? Instant{std::numeric_limits<std::int64_t>::max()} : heap_.front()->key_;
}

inline unsigned DeadlineQueue::expire(Instant now) {
  unsigned expired = 0;
  for (; !heap_.empty() && heap_.front()->key_ <= now; ++expired) {
    Fence& f = *heap_.front();
    f.stop(f.late_, {});
    f.key_ = Instant{std::numeric_limits<std::int64_t>::max()};  // fires once
    moved(f);
  }
  return expired;
}

}  // namespace b10::core
