#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace b10 {

/// A length of time in nanoseconds. Converts from any std::chrono duration without that header.
struct Duration {
  std::int64_t ns = 0;

  constexpr Duration() = default;
  constexpr explicit Duration(std::int64_t nanoseconds) : ns(nanoseconds) {}
  template <class D>
    requires requires(D d) {
      d.count();
      D::period::num;
    }
  constexpr Duration(D d)  // NOLINT(google-explicit-constructor): `.deadline = 2s` is the point
      : ns(static_cast<std::int64_t>(
            static_cast<double>(d.count()) *
            (1e9 * static_cast<double>(D::period::num) / static_cast<double>(D::period::den)))) {}

  // Both spelled out: nvcc 13.0 declares but does not define the == that <=> implies.
  friend constexpr bool operator==(Duration, Duration) = default;
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Duration{a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration{a.ns - b.ns}; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
};

[[nodiscard]] constexpr Duration nanoseconds(std::int64_t n) { return Duration{n}; }
[[nodiscard]] constexpr Duration microseconds(std::int64_t n) { return Duration{n * 1'000}; }
[[nodiscard]] constexpr Duration milliseconds(std::int64_t n) { return Duration{n * 1'000'000}; }
[[nodiscard]] constexpr Duration seconds(std::int64_t n) { return Duration{n * 1'000'000'000}; }

/// A point on a transport's monotonic clock. Never sent: only durations go on the wire.
struct Instant {
  std::int64_t ns = 0;

  friend constexpr bool operator==(Instant, Instant) = default;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration{a.ns - b.ns}; }
  /// Saturates, so that "now + a huge duration" is never in the past.
  friend constexpr Instant operator+(Instant a, Duration d) {
    constexpr auto max = std::numeric_limits<std::int64_t>::max();
    return d.ns > 0 && a.ns > max - d.ns ? Instant{max} : Instant{a.ns + d.ns};
  }
};

}  // namespace b10
