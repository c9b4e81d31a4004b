#pragma once

#include <ctime>

#include <b10/time.hpp>

namespace b10 {

/// The machine's monotonic clock. The wall clock is never read.
[[nodiscard]] inline Instant steady_now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

}  // namespace b10
