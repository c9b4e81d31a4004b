// Medians with their spread, and the files under bench/results.
#pragma once

#include <sys/utsname.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace b10::bench {

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

[[nodiscard]] inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}
[[nodiscard]] inline Spread spread(std::vector<double> const& values) {
  return {quantile(values, 0.5), quantile(values, 0), quantile(values, 1)};
}

/// Text of a shell command's first line; empty if it fails.
[[nodiscard]] inline std::string first_line_of(char const* command) {
  std::FILE* const pipe = popen(command, "r");
  if (!pipe) return {};
  char line[256] = {};
  if (!std::fgets(line, sizeof line, pipe)) line[0] = 0;
  pclose(pipe);
  std::string text(line);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

[[nodiscard]] inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

/// What a result means nothing without.
struct Provenance {
  std::string command;
  std::string ucx;
  std::string lanes;

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> fields() const {
    utsname os{};
    uname(&os);
    std::string model = first_line_of("grep -m1 '^model name' /proc/cpuinfo | cut -d: -f2-");
    model.erase(0, model.find_first_not_of(' '));
    return {
        {"machine", model + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores"},
        {"system", std::string(os.sysname) + " " + os.release},
        {"commit", first_line_of("git describe --always --dirty 2>/dev/null")},
        {"date", first_line_of("date -u +%Y-%m-%d")},
        {"load", first_line_of("cut -d' ' -f1-3 /proc/loadavg")},
        {"command", command},
        {"ucx", ucx},
        {"lanes", lanes}};
  }
};

/// Writes DIR/NAME.json (provenance and rows, each a JSON object) and DIR/NAME.md (the same table
/// that was printed). False if it cannot.
[[nodiscard]] inline bool write_results(std::string const& dir, std::string const& name,
                                        Provenance const& from,
                                        std::vector<std::string> const& rows,
                                        std::string const& table) {
  std::ofstream json(dir + "/" + name + ".json");
  std::ofstream text(dir + "/" + name + ".md");
  json << "{\n";
  text << "# " << name << "\n\n";
  for (auto const& [key, value] : from.fields()) {
    json << "  " << quoted(key) << ": " << quoted(value) << ",\n";
    text << "- " << key << ": " << value << "\n";
  }
  json << "  \"rows\": [\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    json << "    " << rows[i] << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  json << "  ]\n}\n";
  text << "\n" << table;
  return json.good() && text.good();
}

}  // namespace b10::bench
