#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/types.hpp>

namespace b10::session::detail {

/// Longest text in a message; longer ones are cut by the writer and refused by the reader.
inline constexpr std::size_t message_text_bytes_max = 4096;

template <class T>
struct Wire {
  using type = std::make_unsigned_t<T>;
};
template <class T>
  requires std::is_enum_v<T>
struct Wire<T> {
  using type = std::make_unsigned_t<std::underlying_type_t<T>>;
};

/// Writes little-endian fields one after the other; the mirror of FieldReader, so that one function
/// names the fields of a message for both.
class FieldWriter {
 public:
  template <class T>
  void number(T const& value) {
    auto const v = static_cast<std::uint64_t>(static_cast<typename Wire<T>::type>(value));
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_.push_back(static_cast<std::byte>(v >> (8 * i)));
  }
  template <class T>
  void number(T const& value, T /*last*/) {
    number(value);
  }
  void flag(bool value) { number(static_cast<std::uint8_t>(value)); }
  void bytes(std::vector<std::byte> const& value) {
    number(static_cast<std::uint32_t>(value.size()));
    out_.insert(out_.end(), value.begin(), value.end());
  }
  void text(std::string const& value) {
    auto const view = as_byte_view(value).first(std::min(value.size(), message_text_bytes_max));
    number(static_cast<std::uint32_t>(view.size()));
    out_.insert(out_.end(), view.begin(), view.end());
  }
  template <class T, class F>
  void list(std::vector<T>& values, std::size_t /*bytes_min*/, F&& each) {
    number(static_cast<std::uint32_t>(values.size()));
    for (auto& v : values) each(v);
  }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(out_); }

 private:
  std::vector<std::byte> out_{};
};

/// For hostile input: once anything is wrong good() stays false and what is read is zero or empty.
class FieldReader {
 public:
  explicit FieldReader(std::span<std::byte const> in) : in_(in) {}

  template <class T>
  void number(T& value) {
    value = static_cast<T>(in_.take<typename Wire<T>::type>());
  }
  /// An enumeration whose largest value is `last`.
  template <class T>
  void number(T& value, T last) {
    number(value);
    if (value > last) fail(), value = T{};
  }
  void flag(bool& value) {
    std::uint8_t byte = 0;
    number(byte);
    if (byte > 1) fail();
    value = byte == 1;
  }
  void bytes(std::vector<std::byte>& value) {
    auto const view = in_.take_bytes(in_.take<std::uint32_t>());
    value.assign(view.begin(), view.end());
  }
  void text(std::string& value) {
    value = as_text(in_.take_bytes(in_.take<std::uint32_t>()));
    if (value.size() > message_text_bytes_max || !is_plain_text(value)) fail(), value.clear();
  }
  /// `bytes_min`: what one entry takes at least, so that a count cannot promise more than is there.
  template <class T, class F>
  void list(std::vector<T>& values, std::size_t bytes_min, F&& each) {
    auto const count = in_.take<std::uint32_t>();
    if (!good() || count > in_.left() / bytes_min) return fail();
    values.resize(count);
    for (auto& v : values) {
      if (!good()) return;
      each(v);
    }
  }
  [[nodiscard]] bool good() const { return good_ && in_.ok(); }
  [[nodiscard]] bool done() const { return good_ && in_.done(); }

 private:
  void fail() { good_ = false; }
  ByteReader in_;
  bool good_ = true;
};

}  // namespace b10::session::detail
