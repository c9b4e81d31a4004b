// What KV bytes look like here, so that a wrong one shows: every word follows from the request, the
// span and its place in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace demo {

/// Bytes that nobody was to write.
inline constexpr std::byte canary{0xa5};

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The bytes of one span of one request. What is constexpr runs on GPUs too.
class Pattern {
 public:
  constexpr Pattern(std::uint64_t request, std::uint64_t span) : seed_(mix(mix(request) + span)) {}

  [[nodiscard]] constexpr std::byte byte(std::uint64_t i) const {
    return static_cast<std::byte>(word(i / word_bytes) >> (8 * (i % word_bytes)) & 0xff);
  }
  void fill(std::span<std::byte> out) const {
    for (std::size_t at = 0; at < out.size(); at += word_bytes) {
      std::uint64_t const w = word(at / word_bytes);
      std::memcpy(out.data() + at, &w, std::min(word_bytes, out.size() - at));
    }
  }
  /// Where `bytes` differ first, or nothing.
  [[nodiscard]] std::optional<std::size_t> difference(std::span<std::byte const> bytes) const {
    for (std::size_t at = 0; at < bytes.size(); at += page_bytes) {
      auto const page = bytes.subspan(at, std::min(page_bytes, bytes.size() - at));
      if (!same(page, at / word_bytes)) return at + exact(page, at);
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t word_bytes = 8;
  static constexpr std::size_t page_bytes = 4096;

  [[nodiscard]] constexpr std::uint64_t word(std::uint64_t i) const {
    std::uint64_t x = seed_ + i * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 29);
  }
  [[nodiscard]] bool same(std::span<std::byte const> page, std::uint64_t first) const {
    std::uint64_t difference = 0;
    std::size_t at = 0;
    for (; at + word_bytes <= page.size(); at += word_bytes) {
      std::uint64_t w = 0;
      std::memcpy(&w, page.data() + at, word_bytes);
      difference |= w ^ word(first++);
    }
    std::uint64_t const rest = word(first);
    return difference == 0 && std::memcmp(page.data() + at, &rest, page.size() - at) == 0;
  }
  [[nodiscard]] std::size_t exact(std::span<std::byte const> page, std::size_t offset) const {
    std::size_t i = 0;
    while (i + 1 < page.size() && page[i] == byte(offset + i)) ++i;
    return i;
  }

  std::uint64_t seed_;
};

/// Where `bytes` are first not canary, or nothing.
inline std::optional<std::size_t> not_canary(std::span<std::byte const> bytes) {
  if (bytes.empty() ||
      (bytes[0] == canary && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0))
    return std::nullopt;
  return static_cast<std::size_t>(
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != canary; }) -
      bytes.begin());
}

}  // namespace demo
