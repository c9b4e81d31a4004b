// Command lines made of `--name value`, described by a table of knobs.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace demo {

[[noreturn]] inline void refuse(std::string_view option, std::string_view value,
                                std::string_view allowed) {
  throw std::runtime_error(std::string(option) + " is '" + std::string(value) + "', allowed are " +
                           std::string(allowed));
}

/// A whole number with an optional k, m or g (1024s).
inline std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  auto const unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || unit.size() > 1) return std::nullopt;
  if (unit.empty()) return value;
  auto const at = std::string_view("kmg").find(unit[0]);
  if (at == std::string_view::npos || value > (std::uint64_t{1} << 32)) return std::nullopt;
  return value << (10 * (at + 1));
}

inline std::uint64_t number(std::string_view option, std::string_view text, std::uint64_t min,
                            std::uint64_t max) {
  auto const value = number(text);
  if (!value || *value < min || *value > max)
    refuse(option, text, std::to_string(min) + " to " + std::to_string(max));
  return *value;
}

template <class Options>
struct BasicKnob {
  std::string_view name;
  std::string_view argument;  ///< empty: a switch
  std::string_view help;      ///< empty: for this program itself
  void (*set)(Options&, std::string_view name, std::string_view value);
};

/// `--name value` or `--name=value`. Throws std::runtime_error naming value, range and option.
template <class Options>
Options parse_knobs(std::span<BasicKnob<Options> const> knobs,
                    std::span<char const* const> arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view text = arguments[i];
    auto const equals = text.find('=');
    auto const name = text.substr(0, equals);
    BasicKnob<Options> const* knob = nullptr;
    for (auto const& k : knobs)
      if (k.name == name) knob = &k;
    if (knob == nullptr)
      throw std::runtime_error("'" + std::string(text) + "' is not an option: see --help");
    bool const attached = equals != std::string_view::npos;
    if (knob->argument.empty() ? attached : !attached && i + 1 == arguments.size())
      throw std::runtime_error(std::string(name) +
                               (attached ? " takes no value" : " needs a value: see --help"));
    std::string_view value;
    if (!knob->argument.empty()) value = attached ? text.substr(equals + 1) : arguments[++i];
    knob->set(o, name, value);
  }
  return o;
}

template <class Options>
void print_knobs(std::span<BasicKnob<Options> const> knobs) {
  for (auto const& k : knobs)
    if (!k.help.empty()) {
      auto const head = std::string(k.name) + " " + std::string(k.argument);
      std::printf("  %-28s %s\n", head.c_str(), std::string(k.help).c_str());
    }
}

}  // namespace demo
