#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include <b10/copy_engine.hpp>

namespace b10 {

/// Says when source bytes in host memory are ready to be read. It stands in for a CUDA event where
/// there is no GPU: whoever fills the pages fires it, the lane polls it, and it never goes back.
/// A handle: copies share one event, which lives until the last copy is gone. A default one is
/// ready at once. Any thread. What was written before fire() is visible to whoever has seen state()
/// == done.
class HostEvent {
 public:
  HostEvent() = default;

  /// A new event that has not fired.
  [[nodiscard]] static HostEvent create() {
    return HostEvent(std::make_shared<std::atomic<CopyState>>(CopyState::pending));
  }

  /// The bytes are there. The first fire() or fail() decides; later ones change nothing.
  void fire() noexcept { settle(CopyState::done); }
  /// The bytes will never be there: whoever waits for them fails.
  void fail() noexcept { settle(CopyState::failed); }

  [[nodiscard]] CopyState state() const noexcept {
    return state_ ? state_->load(std::memory_order_acquire) : CopyState::done;
  }

 private:
  explicit HostEvent(std::shared_ptr<std::atomic<CopyState>> state) : state_(std::move(state)) {}

  void settle(CopyState to) noexcept {
    if (!state_) return;
    auto expected = CopyState::pending;
    state_->compare_exchange_strong(expected, to, std::memory_order_acq_rel);
  }

  std::shared_ptr<std::atomic<CopyState>> state_{};
};

}  // namespace b10
