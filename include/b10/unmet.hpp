#pragma once

#include <cstddef>

namespace b10 {
namespace detail {

/// A string as a template argument, so that compilers print it.
template <std::size_t N>
struct Text {
  char value[N]{};
  consteval Text(char const (&text)[N]) {
    for (std::size_t i = 0; i < N; ++i) value[i] = text[i];
  }
};

}  // namespace detail

/// Always false; its argument is there for the compiler to print:
/// `requires {...} || unmet<"add: Tag tag(MessageIdentity) const noexcept">`.
/// The only form tried whose advice g++, clang and nvcc all print.
template <detail::Text Advice>
inline constexpr bool unmet = false;

}  // namespace b10
