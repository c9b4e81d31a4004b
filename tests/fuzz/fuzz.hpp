#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/bytes.hpp>

/// What the fuzzers of hostile input share. A target turns any bytes into work for one family of
/// decoders and requires what must hold whatever comes in; it has to be deterministic.
namespace fuzz {

using Bytes = std::span<std::byte const>;
using Buffer = std::vector<std::byte>;

/// Ends the process, so that any fuzzer and any debugger sees it, if a promise is broken.
inline void require(bool promise, std::source_location at = std::source_location::current()) {
  if (promise) return;
  std::fprintf(stderr, "%s:%u: a promise is broken\n", at.file_name(),
               static_cast<unsigned>(at.line()));
  std::abort();
}

/// Takes an input apart into the choices that a target makes. Beyond the end all choices are 0.
class Input {
 public:
  explicit Input(Bytes in) : in_(in) {}

  template <class T>
  [[nodiscard]] T number() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T) && left() > 0; ++i)
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(in_[used_++]) << (8 * i)));
    return value;
  }
  /// A number in [0, limit).
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) {
    return limit == 0 ? 0 : number<std::uint32_t>() % limit;
  }
  [[nodiscard]] Bytes bytes(std::size_t count) {
    auto const view = in_.subspan(used_, std::min(count, left()));
    used_ += view.size();
    return view;
  }
  /// A piece whose length is one of the choices: up to 255 bytes.
  [[nodiscard]] Bytes piece() { return bytes(number<std::uint8_t>()); }
  [[nodiscard]] Bytes rest() { return bytes(left()); }
  [[nodiscard]] std::size_t left() const { return in_.size() - used_; }

 private:
  Bytes in_;
  std::size_t used_ = 0;
};

/// Builds an input: the reverse of Input.
class Seed {
 public:
  template <class T>
  Seed& number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    return *this;
  }
  Seed& bytes(Bytes more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  /// With its length in front: at most 255 bytes.
  Seed& piece(Bytes more) {
    number(static_cast<std::uint8_t>(more.size()));
    return bytes(more.first(std::min<std::size_t>(more.size(), 255)));
  }
  [[nodiscard]] Buffer take() { return std::move(bytes_); }

 private:
  Buffer bytes_{};
};

[[nodiscard]] inline Buffer copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }
[[nodiscard]] inline bool same(Bytes a, Bytes b) { return std::ranges::equal(a, b); }
inline void flip(std::span<std::byte> bytes, std::uint64_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

struct Target {
  std::string_view name;
  void (*run)(Bytes);
  /// Inputs made by the real encoders: they reach what random bytes would not find.
  std::vector<Buffer> (*seeds)();
};

// One file each.
extern Target const frames, descriptors, hello, staging_offers, session_messages;
#ifdef B10_FUZZ_BOOTSTRAP
extern Target const bootstrap;  // needs OpenSSL
#endif
#ifdef B10_FUZZ_JSON
extern Target const json_files;  // needs nlohmann/json
#endif

}  // namespace fuzz
