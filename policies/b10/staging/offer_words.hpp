#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace b10::staging {

/// Takes an offer of staging apart: words with one blank between them. What a peer has sent is
/// hostile; good() tells at the end whether all of it was as expected.
class OfferWords {
 public:
  explicit OfferWords(std::string_view text) noexcept : text_(text) {}

  [[nodiscard]] std::string_view word() noexcept {
    auto const end = std::min(text_.find(' '), text_.size());
    auto const found = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    good_ &= !found.empty();
    return found;
  }
  [[nodiscard]] std::uint64_t number() noexcept {
    auto const w = word();
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(w.data(), w.data() + w.size(), value);
    good_ &= error == std::errc{} && end == w.data() + w.size();
    return value;
  }
  [[nodiscard]] bool good() const noexcept { return good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool good_ = true;
};

inline void add_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word.empty() ? std::string_view("-") : word;
}
inline void add_word(std::string& text, std::uint64_t number) {
  add_word(text, std::string_view(std::to_string(number)));
}

/// The bytes as hexadecimal digits, two each.
[[nodiscard]] inline std::string hex(unsigned char const* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}
/// The other way; false unless it is exactly so many bytes in lower-case digits.
[[nodiscard]] inline bool unhex(std::string_view text, unsigned char* bytes, std::size_t count) {
  if (text.size() != 2 * count) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return false;
    bytes[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? digit << 4 : bytes[i / 2] | digit);
  }
  return true;
}

}  // namespace b10::staging
