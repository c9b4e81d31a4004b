#pragma once

#include <atomic>
#include <cstdint>

#include <b10/outcome.hpp>

namespace b10 {

/// Written by one lane, read by any thread; a plain load and store, no locked instruction.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// What a lane counts. Every failed transfer raises exactly one cell of `ended`, by cause. Field by
/// field it is always readable, also while the data path is stuck; no snapshot across fields is
/// promised.
struct Metrics {
  struct Side {
    Counter started;
    Counter bytes_landed;
    Counter landed;               ///< transfers
    Counter ended[reason_count];  ///< transfers that did not land, by Reason
    [[nodiscard]] std::uint64_t failed() const noexcept {
      std::uint64_t n = 0;
      for (auto const& c : ended) n += c.get();
      return n;
    }
  };
  Side sent;
  Side received;
  Counter sweeps;  ///< failure funnels run: one per failed transfer that had posted something
  Counter cancels_settled;     ///< of these, cancelled ones that left nothing in quarantine
  Counter notes_dropped;       ///< notifications that found Config::notes_max unread ones
  Counter attempts_retried;    ///< CONTROL sent again on a fresh generation
  Counter duplicates_ignored;  ///< control messages for a transfer that is running already
  Counter stale_ignored;       ///< messages of a finished transfer or an old generation
  Counter malformed_ignored;   ///< control frames that do not decode
  Counter unexpected_sunk;     ///< messages that no receive wanted, drained
  Counter links_opened;
  Counter links_down;
  Counter links_refused;

  // Gauges, in bytes of staging; K6: free + leased + quarantined + abandoned == total.
  Counter staging_free;
  Counter staging_leased;
  Counter staging_quarantined;
  Counter staging_abandoned;
  Counter staging_total;
  Counter tags_active;
  Counter tags_quarantined;
  Counter generations_penned;
  Counter transfers_running;
};

enum class Health : std::uint8_t {
  ok,
  degraded,  ///< quarantine is over its budget: new transfers are refused until it recovers
};

}  // namespace b10
