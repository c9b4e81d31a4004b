#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace b10 {

/// Writes fixed-width little-endian fields one after the other. A field that does not fit is not
/// written and makes ok() false for good, so that an encoder checks once, at its end.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> out) noexcept : out_(out) {}

  template <std::unsigned_integral T>
  void put(T value) noexcept {
    if (!reserve(sizeof(T))) return;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_[used_ + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
    used_ += sizeof(T);
  }
  /// `bytes` may already lie at the place they are written to.
  void put(std::span<std::byte const> bytes) noexcept {
    if (!reserve(bytes.size())) return;
    if (!bytes.empty()) std::memmove(out_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }

  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t room() const noexcept { return out_.size() - used_; }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  /// What was written; empty if something did not fit.
  [[nodiscard]] std::span<std::byte const> written() const noexcept {
    return ok_ ? out_.first(used_) : std::span<std::byte>{};
  }

 private:
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept {
    ok_ = ok_ && bytes <= room();
    return ok_;
  }

  std::span<std::byte> out_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

/// The reverse, for hostile input: reads past the end yield zeros and make ok() false for good.
class ByteReader {
 public:
  explicit ByteReader(std::span<std::byte const> in) noexcept : in_(in) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T take() noexcept {
    auto const field = take_bytes(sizeof(T));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < field.size(); ++i) {
      value |= std::to_integer<std::uint64_t>(field[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  /// A view into the input; empty if fewer than `count` bytes are left.
  [[nodiscard]] std::span<std::byte const> take_bytes(std::size_t count) noexcept {
    ok_ = ok_ && count <= left();
    if (!ok_) return {};
    auto const view = in_.subspan(used_, count);
    used_ += count;
    return view;
  }

  [[nodiscard]] std::size_t left() const noexcept { return in_.size() - used_; }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  /// Everything was there and nothing is left over.
  [[nodiscard]] bool done() const noexcept { return ok_ && left() == 0; }

 private:
  std::span<std::byte const> in_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

[[nodiscard]] inline std::span<std::byte const> as_byte_view(std::string_view text) noexcept {
  return std::as_bytes(std::span{text});
}

[[nodiscard]] inline std::string_view as_text(std::span<std::byte const> bytes) noexcept {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

/// Control characters from a peer could forge lines of a log: text with any is refused.
[[nodiscard]] constexpr bool is_control_character(char c) noexcept {
  auto const u = static_cast<unsigned char>(c);
  return u < 0x20 || u == 0x7f;
}

[[nodiscard]] constexpr bool is_plain_text(std::string_view text) noexcept {
  for (char const c : text) {
    if (is_control_character(c)) return false;
  }
  return true;
}

}  // namespace b10
