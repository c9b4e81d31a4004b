#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <b10/staging/block_memory.hpp>
#include <b10/steady_clock.hpp>
#include <b10/time.hpp>

namespace b10::staging {

/// Who gives dropped blocks back to the system and makes fresh ones.
enum class Refill : std::uint8_t {
  background,  ///< a thread that lives only while there is such work: making a block is slow
  inline_,     ///< drop() frees, each maintain() makes one: no thread, every step visible to a test
};

/// Owns the memory kind of a pool and the background work on it. All calls come from the pool's
/// thread; the mutex is taken only when blocks are dropped or fetched, and never held while the
/// system is asked for memory.
template <BlockMemory Memory>
class Refiller {
 public:
  Refiller(typename Memory::Options options, std::size_t block_bytes, std::size_t blocks_max,
           Refill refill)
      : memory_(options), block_bytes_(block_bytes), refill_(refill) {
    condemned_.reserve(blocks_max);  // so that nothing below allocates
    fresh_.reserve(blocks_max);
  }
  Refiller(Refiller const&) = delete;
  Refiller& operator=(Refiller const&) = delete;

  ~Refiller() {
    stop();
    for (auto* block : condemned_) memory_.free(block, block_bytes_);
    for (auto* block : fresh_) memory_.free(block, block_bytes_);
  }

  /// Ends background work for good; waits for at most one block to be made or freed.
  void stop() noexcept {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }

  /// Makes one block on this thread; throws Error. For the start, before any background work.
  [[nodiscard]] std::byte* allocate() { return memory_.allocate(block_bytes_); }
  /// Frees one block on this thread. For the end, when no background work is under way.
  void free(std::byte* block) noexcept { memory_.free(block, block_bytes_); }

  /// Gives a block back to the system, now or soon.
  void give_back(std::byte* block) noexcept {
    if (refill_ == Refill::inline_) return memory_.free(block, block_bytes_);
    {
      std::lock_guard const lock(mutex_);
      condemned_.push_back(block);
    }
    start();
  }

  /// The pool lacks `missing` blocks: makes one now (inline), or sees to it that the thread makes
  /// them. A failure is not fatal: it is counted, and a call 0.1 s or more later tries again.
  void request(std::size_t missing) noexcept {
    if (failures() > 0 && steady_now().ns < retry_at_ns_.load(std::memory_order_relaxed)) return;
    if (refill_ == Refill::inline_) {
      if (missing > 0 && !has_fresh()) make_one();
      return;
    }
    {
      std::lock_guard const lock(mutex_);
      auto const coming = fresh_.size() + in_hand_;
      wanted_ = missing > coming ? missing - coming : 0;
    }
    start();
  }

  [[nodiscard]] bool has_fresh() const noexcept {
    return has_fresh_.load(std::memory_order_relaxed);
  }
  /// Moves fresh blocks to `to`, whose capacity suffices.
  void fetch(std::vector<std::byte*>& to) noexcept {
    std::lock_guard const lock(mutex_);
    to.insert(to.end(), fresh_.begin(), fresh_.end());
    fresh_.clear();
    has_fresh_.store(false, std::memory_order_relaxed);
  }

  /// Times a block could not be made. Any thread.
  [[nodiscard]] std::uint64_t failures() const noexcept {
    return failures_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Memory const& memory() const noexcept { return memory_; }

 private:
  void start() noexcept {
    {
      std::lock_guard const lock(mutex_);
      if (running_ || (condemned_.empty() && wanted_ == 0)) return;
      running_ = true;
    }
    if (thread_.joinable()) thread_.join();  // it has said that it ends
    try {
      thread_ = std::thread([this] { work(); });
    } catch (std::system_error const&) {
      std::lock_guard const lock(mutex_);
      running_ = false;  // no thread to be had now; the next request() tries again
    }
  }

  /// The thread: one block at a time until there is nothing to do. Gives memory back before it asks
  /// for more.
  void work() noexcept {
    for (;;) {
      std::byte* condemned = nullptr;
      {
        std::lock_guard const lock(mutex_);
        if (stop_.load(std::memory_order_relaxed) || (condemned_.empty() && wanted_ == 0)) {
          running_ = false;
          return;
        }
        if (!condemned_.empty()) {
          condemned = condemned_.back();
          condemned_.pop_back();
        } else {
          --wanted_;
          in_hand_ = 1;
        }
      }
      if (condemned) {
        memory_.free(condemned, block_bytes_);
      } else {
        make_one();
      }
    }
  }

  void make_one() noexcept {
    std::byte* block = nullptr;
    try {
      block = memory_.allocate(block_bytes_);
    } catch (...) {
      retry_at_ns_.store((steady_now() + retry_after).ns, std::memory_order_relaxed);
      failures_.fetch_add(1, std::memory_order_relaxed);
    }
    std::lock_guard const lock(mutex_);
    in_hand_ = 0;
    if (block) {
      fresh_.push_back(block);
      has_fresh_.store(true, std::memory_order_relaxed);
    } else {
      wanted_ = 0;  // until it is time to try again
    }
  }

  static constexpr Duration retry_after = milliseconds(100);

  Memory memory_;
  std::size_t const block_bytes_;
  Refill const refill_;
  std::thread thread_{};
  std::atomic<bool> stop_{false};
  std::atomic<bool> has_fresh_{false};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::int64_t> retry_at_ns_{0};

  std::mutex mutex_{};  // guards what follows
  std::vector<std::byte*> condemned_{};
  std::vector<std::byte*> fresh_{};
  std::size_t wanted_ = 0;
  std::size_t in_hand_ = 0;
  bool running_ = false;
};

}  // namespace b10::staging
