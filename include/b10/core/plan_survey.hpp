#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <b10/core/address_of.hpp>
#include <b10/outcome.hpp>
#include <b10/types.hpp>

namespace b10::core::detail {

/// A map of granules is worth its memory up to this many bits a span.
inline constexpr std::uint64_t map_bits_per_span = 64;

/// What one pass over one side of a list learns.
struct Side {
  std::uint64_t low = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t high = 0;                                         ///< highest address of a span
  std::uint64_t end = 0;                                          ///< no span reaches beyond
  std::uint64_t any = 0;                                          ///< bits set in any address
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();  ///< bits set in every address
  Device device{};
  std::uint32_t other_devices = 0;  ///< not 0: not all spans are on `device`

  void add(std::uint64_t address, Device on) noexcept {
    low = address < low ? address : low;
    high = address > high ? address : high;
    any |= address;
    all &= address;
    other_devices |= static_cast<std::uint32_t>(to_integer(on) ^ to_integer(device));
  }
  [[nodiscard]] bool one_device() const noexcept { return other_devices == 0; }
  /// log2 of the granule: all addresses agree in their lowest `shift` bits.
  [[nodiscard]] unsigned shift() const noexcept {
    auto const differing = any ^ all;
    return differing == 0 ? 63u : static_cast<unsigned>(std::countr_zero(differing));
  }
  [[nodiscard]] std::uint64_t granules() const noexcept { return ((end - 1 - low) >> shift()) + 1; }
  [[nodiscard]] bool fits_a_map(std::size_t spans) const noexcept {
    return one_device() && (end - 1 - low) >> shift() < map_bits_per_span * spans;
  }
};

struct Survey {
  Side source{};
  Side destination{};
  std::uint64_t bytes = 0;
  bool any_empty = false;
};

[[noreturn]] inline void refuse(std::string const& why) {
  throw Error(Reason::invalid_request, why);
}

[[noreturn]] inline void refuse_span(std::string const& which, std::uint64_t address,
                                     std::uint64_t bytes, Device device) {
  auto const d = to_integer(device);
  if (d < to_integer(Device::host)) {
    refuse(which + ": memory kind " + std::to_string(d) +
           " is unknown; it is -1 for host memory or a CUDA device from 0");
  }
  if (address == 0) refuse(which + ": address is null but " + std::to_string(bytes) + " B long");
  refuse(which + ": " + std::to_string(bytes) + " B from address " + std::to_string(address) +
         " wrap around 2^64");
}

template <class Span>
[[nodiscard]] bool is_sound(Span const& s) noexcept {
  if (to_integer(s.device) < to_integer(Device::host)) return false;
  return s.bytes == 0 || (address_of(s) != 0 && address_of(s) <= ~s.bytes);
}

[[noreturn]] inline void refuse_pair(std::size_t i, LocalSpan const& s, RemoteSpan const& d) {
  auto const at = std::to_string(i);
  if (s.bytes != d.bytes) {
    refuse("pair " + at + ": source has " + std::to_string(s.bytes) + " B, destination " +
           std::to_string(d.bytes) + " B; both sizes of a pair must be equal");
  }
  if (!is_sound(s)) refuse_span("source " + at, address_of(s), s.bytes, s.device);
  if (!is_sound(d)) refuse_span("destination " + at, d.address, d.bytes, d.device);
  refuse("pair " + at + ": the sum of all sizes reaches 2^64; split the request");
}

/// The exact check, pair by pair; `found` gets the exact ends.
inline void check_each(std::span<LocalSpan const> sources, std::span<RemoteSpan const> destinations,
                       Survey& found) {
  found.source.end = found.destination.end = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    LocalSpan const& s = sources[i];
    RemoteSpan const& d = destinations[i];
    sum += s.bytes;
    if (s.bytes != d.bytes || !is_sound(s) || !is_sound(d) || sum < s.bytes) refuse_pair(i, s, d);
    found.source.end = std::max(found.source.end, address_of(s) + s.bytes);
    found.destination.end = std::max(found.destination.end, d.address + d.bytes);
  }
}

/// Validates every pair. The loop gathers bounds only, since it runs for every span of every
/// transfer; where they leave room for a fault, each pair is checked for itself.
[[nodiscard]] inline Survey survey(std::span<LocalSpan const> sources,
                                   std::span<RemoteSpan const> destinations) {
  Survey found;
  if (sources.empty()) return found;
  Side source{.device = sources.front().device};
  Side destination{.device = destinations.front().device};
  std::uint64_t unequal = 0;
  std::uint64_t longest = 0;
  std::uint64_t empty = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    LocalSpan const& s = sources[i];
    RemoteSpan const& d = destinations[i];
    source.add(address_of(s), s.device);
    destination.add(d.address, d.device);
    unequal |= s.bytes ^ d.bytes;
    longest = s.bytes > longest ? s.bytes : longest;
    empty += s.bytes == 0 ? 1u : 0u;
    sum += s.bytes;
  }
  source.end = source.high + longest;
  destination.end = destination.high + longest;
  found = {.source = source, .destination = destination, .bytes = sum, .any_empty = empty != 0};
  auto const plain = [longest](Side const& side) {
    return side.one_device() && to_integer(side.device) >= to_integer(Device::host) &&
           side.low != 0 && side.high <= ~longest;
  };
  constexpr auto max = std::numeric_limits<std::uint64_t>::max();
  if (unequal != 0 || empty != 0 || !plain(source) || !plain(destination) ||
      longest > max / sources.size()) {
    check_each(sources, destinations, found);
  }
  return found;
}

}  // namespace b10::core::detail
