#pragma once

#include <cstdint>

#include <b10/time.hpp>

namespace b10::sim {

/// Numbers that are a function of one 64-bit seed: splitmix64 (Steele, Lea, Flood 2014). The same
/// on every machine, which the distributions of the standard library are not.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15u); }
  /// 0 .. bound - 1, and 0 for a bound of 0. The bias of bound / 2^32 does not matter here.
  constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>((next() >> 32) * bound >> 32);
  }
  /// first .. last, both included; last >= first, less than 2^32 apart.
  constexpr std::uint64_t between(std::uint64_t first, std::uint64_t last) noexcept {
    return first + ((next() >> 32) * (last - first + 1) >> 32);
  }
  constexpr Duration between(Duration first, Duration last) noexcept {
    auto const range = static_cast<std::uint64_t>((last - first).ns);
    return Duration{first.ns + static_cast<std::int64_t>(range == 0 ? 0 : next() % (range + 1))};
  }
  /// True `in` times of `of`.
  constexpr bool chance(std::uint32_t in, std::uint32_t of) noexcept { return below(of) < in; }
  /// Another stream, independent of how far this one is drawn after it.
  constexpr Random fork() noexcept { return Random(next()); }

  static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace b10::sim
