#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <b10/copy/host_runs.hpp>
#include <b10/copy_engine.hpp>
#include <b10/host_event.hpp>

namespace b10::copy {

/// Where copy::Threaded copies.
enum class CopyThread : std::uint8_t {
  automatic,  ///< on a thread of its own where this process may use 4 cores or more, else inline
  own,
  caller,  ///< as copy::Memcpy does
};

/// Does host copies in the order they were handed in, on one thread: spins a while for the next
/// one, then sleeps. One thread hands in and asks. Its end waits for what was handed in, which is
/// bounded: `slots` copies of a slice each.
class CopyWorker {
 public:
  struct Job {
    SpanRun run{};
    std::byte* staging = nullptr;
    bool gathers = false;
  };
  static constexpr std::uint64_t slots = 256;

  CopyWorker() : thread_([this] { work(); }) {}
  CopyWorker(CopyWorker const&) = delete;
  CopyWorker& operator=(CopyWorker const&) = delete;
  ~CopyWorker() {
    stop_.store(true, std::memory_order_seq_cst);
    wake();
    thread_.join();
  }

  [[nodiscard]] bool has_room() const noexcept { return next_ - ended() < slots; }
  /// False: it sleeps, and a copy handed in now would wait for the system's scheduler, which may
  /// take its time while the caller's thread spins (1 ms was seen).
  [[nodiscard]] bool awake() const noexcept { return !asleep_.load(std::memory_order_seq_cst); }
  void wake() noexcept {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    bell_.notify_one();
  }
  /// Number of the copy, from 1. Only when there is room.
  std::uint64_t hand_in(Job const& job) noexcept {
    jobs_[next_ % slots] = job;
    handed_in_.store(++next_, std::memory_order_seq_cst);
    if (!awake()) wake();  // it has fallen asleep just now
    return next_;
  }
  /// Copies with this number or a lower one have ended, and what they wrote is visible.
  [[nodiscard]] std::uint64_t ended() const noexcept {
    return ended_.load(std::memory_order_acquire);
  }

 private:
  /// Some 1 ms: a stream of slices keeps the thread awake, an idle lane does not.
  static constexpr unsigned spins = 20'000;

  void work() noexcept {
    for (std::uint64_t done = 0; wait_for_more(done);) {
      std::uint64_t const until = handed_in_.load(std::memory_order_acquire);
      for (; done < until; ended_.store(++done, std::memory_order_release)) {
        Job const& job = jobs_[done % slots];
        if (job.gathers)
          gather_host(job.run, job.staging);
        else
          scatter_host(job.staging, job.run);
      }
    }
  }
  /// False: there is nothing more, for good.
  bool wait_for_more(std::uint64_t done) noexcept {
    for (unsigned i = 0;; ++i) {
      if (handed_in_.load(std::memory_order_acquire) != done) return true;
      if (stop_.load(std::memory_order_acquire)) return false;
      if (i % spins != spins - 1) {
        pause();
        continue;
      }
      // Who hands in looks at asleep_ after it has stored, and this thread looks again after it has
      // said that it sleeps: one of the two sees the other.
      auto const bell = bell_.load(std::memory_order_seq_cst);
      asleep_.store(true, std::memory_order_seq_cst);
      if (handed_in_.load(std::memory_order_seq_cst) == done &&
          !stop_.load(std::memory_order_seq_cst))
        bell_.wait(bell, std::memory_order_seq_cst);
      asleep_.store(false, std::memory_order_seq_cst);
    }
  }
  static void pause() noexcept {
#if defined(__SSE2__)
    _mm_pause();
#endif
  }

  std::array<Job, slots> jobs_{};
  std::uint64_t next_ = 0;
  alignas(64) std::atomic<std::uint64_t> handed_in_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int> bell_{0};  // int: what the system waits on without a detour
  alignas(64) std::atomic<std::uint64_t> ended_{0};
  std::atomic<bool> asleep_{false};
  std::thread thread_;
};

/// Copies host memory on a thread of its own, while the lane's thread drives the wire. Use it where
/// KV lives in host memory and a core is to spare: two copies on the lane's own core cost a fast
/// wire 15 % and more. Small copies are done at once,
/// because a hand-over costs about as much, and so is one that would have to wait for the thread to
/// wake up. The thread starts with the first copy that needs it. One thread calls.
class Threaded {
 public:
  static constexpr std::string_view name = "copy::Threaded";
  static constexpr bool ends_inline = false;

  struct Options {
    CopyThread thread = CopyThread::automatic;
    std::uint64_t inline_bytes_max = 32 * 1024;  ///< copies up to this size are done at once
  };
  struct Event {
    std::uint64_t number = 0;  ///< of the copy; 0: was done at once
  };
  using SourceReady = HostEvent;

  Threaded(Options const& options, std::uint64_t)
      : inline_bytes_max_(options.inline_bytes_max), threaded_(wants_thread(options.thread)) {}

  void gather(SpanRun from, std::byte* to, Event& event) {
    require_host(from, "copy::Threaded", "gather");
    start({from, to, true}, event);
  }
  /// `from` is only read.
  void scatter(std::byte const* from, SpanRun to, Event& event) {
    require_host(to, "copy::Threaded", "scatter");
    start({to, const_cast<std::byte*>(from), false}, event);
  }
  [[nodiscard]] bool has_room() const noexcept { return !worker_ || worker_->has_room(); }
  [[nodiscard]] CopyState query(Event& event) const noexcept {
    if (event.number == 0 || worker_->ended() >= event.number) return CopyState::done;
    return CopyState::pending;
  }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) const noexcept {
    return ready.state();
  }
  [[nodiscard]] std::string why() const { return {}; }

 private:
  static bool wants_thread(CopyThread thread) noexcept {
    if (thread == CopyThread::automatic) return std::thread::hardware_concurrency() >= 4;
    return thread == CopyThread::own;
  }
  void start(CopyWorker::Job const& job, Event& event) {
    event = {};
    if (threaded_ && job.run.bytes > inline_bytes_max_) {
      if (!worker_) worker_ = std::make_unique<CopyWorker>();
      if (worker_->awake()) {
        event.number = worker_->hand_in(job);
        return;
      }
      worker_->wake();  // for the copies after this one
    }
    if (job.gathers)
      gather_host(job.run, job.staging);
    else
      scatter_host(job.staging, job.run);
  }

  std::uint64_t inline_bytes_max_;
  bool threaded_;
  std::unique_ptr<CopyWorker> worker_{};
};

static_assert(CopyEngine<Threaded>, "copy::Threaded must model b10::CopyEngine");

}  // namespace b10::copy
