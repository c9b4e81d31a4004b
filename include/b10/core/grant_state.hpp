#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

namespace b10::core {

/// One live permission to scatter: for a request (strict), or for one transfer into regions
/// (registered mode). begin_copy and revoke are one atomic word, so that "the tombstone check and
/// copy may start" are one step. Any thread.
class GrantState {
 public:
  GrantState() = default;
  GrantState(GrantState const&) = delete;
  GrantState& operator=(GrantState const&) = delete;

  /// False if revoked: the copy must not start. Else counts it until end_copy().
  [[nodiscard]] bool begin_copy() noexcept {
    auto word = word_.load(std::memory_order_relaxed);
    do {
      if (word & revoked_bit) return false;
    } while (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }
  /// Once for each begin_copy() that returned true, after the copy's event. What the copy wrote is
  /// visible to whoever then sees quiescent().
  void end_copy() noexcept {
    [[maybe_unused]] auto const before = word_.fetch_sub(1, std::memory_order_release);
    assert((before & ~revoked_bit) > 0 && "end_copy without begin_copy");
  }
  /// No further copy can begin. Idempotent.
  void revoke() noexcept { word_.fetch_or(revoked_bit, std::memory_order_acq_rel); }
  /// Revokes only if no copy is active; whether it is revoked and quiescent now.
  [[nodiscard]] bool revoke_if_idle() noexcept {
    std::uint32_t word = 0;
    return word_.compare_exchange_strong(word, revoked_bit, std::memory_order_acq_rel) ||
           quiescent();
  }
  [[nodiscard]] bool revoked() const noexcept {
    return (word_.load(std::memory_order_acquire) & revoked_bit) != 0;
  }
  /// Revoked and no copy active: nothing of this node can touch the spans under this grant any
  /// more.
  [[nodiscard]] bool quiescent() const noexcept {
    return word_.load(std::memory_order_acquire) == revoked_bit;
  }
  [[nodiscard]] std::uint32_t active_copies() const noexcept {
    return word_.load(std::memory_order_acquire) & ~revoked_bit;
  }

 private:
  static constexpr std::uint32_t revoked_bit = 1u << 31;
  std::atomic<std::uint32_t> word_{0};  // revoked_bit, and the number of active copies below it
};

}  // namespace b10::core
