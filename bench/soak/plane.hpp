// What the processes of a soak run share: the place where receiver and senders agree on the next
// transfer, as an engine's scheduler would, and the counts. Made before the processes are.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

#include <b10/steady_clock.hpp>

#include "../workloads.hpp"

namespace b10::bench {

inline constexpr std::size_t senders = 2;
inline constexpr std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
inline constexpr std::size_t chunks = 6;
inline constexpr std::uint64_t transfer_bytes = chunks * chunk_bytes;
inline constexpr Duration deadline = milliseconds(500);

using Shared = std::atomic<std::uint64_t>;

/// One sender's place.
struct Slot {
  Shared request{};      ///< what to send now; 0: nothing. Set by the receiver
  Shared address{};      ///< where to, in the receiver's memory
  Shared started_at{};   ///< when the sender began it [ns of the monotonic clock]; 0: not yet
  Shared stopped_at{};   ///< when the sender was last stopped [ns]
  Shared incarnation{};  ///< of the sender's process
  Shared accepted{};     ///< the incarnation that the receiver knows
  std::array<std::byte, 1024> worker{};  ///< the sender's UCX address, for the naive set
  Shared worker_bytes{};

  void offer(std::uint64_t id, void const* to) {
    started_at = 0;
    address = reinterpret_cast<std::uint64_t>(to);
    request = id;
  }
};

struct Counts {
  Shared landed{};       ///< transfers whose receiver reported success, with the right bytes
  Shared failed{};       ///< transfers reported as failed
  Shared corrupt{};      ///< reported as landed, with wrong bytes; or changed after landing
  Shared claimed{};      ///< transfers that a sender believes landed
  Shared generations{};  ///< connections the receiver has accepted
  Shared quarantined{};  ///< staging views that went into quarantine at the receiver
  Shared late_views{};   ///< of these, how many were written to afterwards
  Shared late_bytes{};
  Shared overrun_ns{};    ///< worst time by which a failure was reported after its deadline
  Shared unproven{};      ///< grants whose memory was not given back in time
  Shared memory_early{};  ///< resident bytes of the receiver after a quarter of the run
  Shared memory_end{};
};

struct Plane {
  std::atomic<bool> stop{false};
  std::array<char, 128> listen{};  ///< where the receiver is, once `ready`
  std::array<std::byte, 1024> worker{};
  Shared worker_bytes{};
  std::atomic<bool> ready{false};
  std::array<Slot, senders> slots{};
  Counts counts{};
};
static_assert(Shared::is_always_lock_free);

[[nodiscard]] inline Plane& make_plane() {
  void* const p =
      mmap(nullptr, sizeof(Plane), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::runtime_error("no shared memory");
  return *new (p) Plane;
}

inline void raise_to(Shared& worst, std::int64_t value) {
  auto const v = static_cast<std::uint64_t>(value < 0 ? 0 : value);
  for (auto seen = worst.load(); seen < v && !worst.compare_exchange_weak(seen, v);) {
  }
}

/// How late a failure was reported. A sender stopped before its request got out tells nothing.
inline void note_overrun(Slot const& slot, Counts& counts) {
  auto const started = static_cast<std::int64_t>(slot.started_at.load());
  auto const stopped = static_cast<std::int64_t>(slot.stopped_at.load());
  if (started == 0 || (stopped >= started && stopped < started + 10'000'000)) return;
  raise_to(counts.overrun_ns, steady_now().ns - started - deadline.ns);
}

/// The right bytes of one transfer.
[[nodiscard]] inline Contents contents_of(std::uint64_t request) {
  return Contents(request * 0xbf58'476d'1ce4'e5b9u);
}

[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace b10::bench
