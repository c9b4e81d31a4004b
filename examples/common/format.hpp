// Numbers as people read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <b10/time.hpp>

namespace demo {

inline double percentile_ms(std::vector<b10::Duration> values, double p) {
  if (values.empty()) return 0;
  auto const at = values.begin() +
                  static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return at->seconds() * 1e3;
}

inline std::string amount(std::uint64_t bytes) {
  char const* const units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace demo
