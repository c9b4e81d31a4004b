// Rows of write_bench_gpu: they leave the sender's process through a file that the parent reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <b10/transfer.hpp>

#include "../report.hpp"
#include "gpu_peers.hpp"

namespace b10::bench {

[[nodiscard]] std::string format(char const* pattern, auto... values) {
  char text[1024];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// Lines by kind: 'T' of the table, 'S' what was skipped, 'X' a failure, which are printed too; 'J'
/// a JSON object; 'E' what explain() says; 'W' bytes were wrong.
class Sink {
 public:
  explicit Sink(std::FILE* file) : file_(file) {}
  /// `text` may have several lines.
  void line(char kind, std::string const& text) {
    for (std::size_t at = 0; at <= text.size();) {
      auto const end = std::min(text.find('\n', at), text.size());
      std::fprintf(file_, "%c%s\n", kind, text.substr(at, end - at).c_str());
      at = end + 1;
    }
    std::fflush(file_);
    if (kind == 'T' || kind == 'S' || kind == 'X') std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  /// Lines of any of these kinds, without them.
  [[nodiscard]] std::vector<std::string> lines(std::string_view kinds) const {
    std::vector<std::string> out;
    std::rewind(file_);
    std::string line;
    for (int c = 0; (c = std::fgetc(file_)) != EOF;) {
      if (c != '\n') {
        line += static_cast<char>(c);
        continue;
      }
      if (kinds.find(line[0]) != kinds.npos) out.push_back(line.substr(1));
      line.clear();
    }
    std::fseek(file_, 0, SEEK_END);
    return out;
  }

 private:
  std::FILE* file_;
};

/// The loops in turn, several times.
struct Measurement {
  std::array<std::vector<double>, hows> seconds{};
  std::vector<StageTimes> stages{};  ///< of the WRITEs
  Wrong wrong{};

  [[nodiscard]] std::vector<double> const& of(How how) const {
    return seconds[static_cast<std::size_t>(how)];
  }
  [[nodiscard]] double median(How how) const { return spread(of(how)).median; }
  /// [us]
  [[nodiscard]] double stage(Duration StageTimes::*member) const {
    std::vector<double> all;
    for (auto const& s : stages) all.push_back((s.*member).seconds() * 1e6);
    return spread(all).median;
  }
  /// What B10 reaches of its slowest stage, round by round: what the machine does meanwhile hits
  /// both.
  [[nodiscard]] Spread p3() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < of(How::b10).size(); ++i)
      all.push_back(std::max({of(How::wire)[i], of(How::gather)[i], of(How::scatter)[i]}) /
                    of(How::b10)[i]);
    return spread(all);
  }
  [[nodiscard]] char const* limit() const {
    double const wire = median(How::wire);
    double const gather = median(How::gather);
    double const scatter = median(How::scatter);
    return wire >= gather && wire >= scatter ? "wire" : gather >= scatter ? "gather" : "scatter";
  }
};

/// Who copies, and into what staging if not the reference's.
[[nodiscard]] inline std::string engine_of(Setup const& setup, Command const& c) {
  if (setup.staging == StagingKind::device) return "Peer, device";
  if (setup.staging == StagingKind::shared) return std::string(to_string(c.engine)) + ", shared";
  return to_string(c.engine);
}

inline constexpr char const* throughput_head =
    "| engine | wire | workload | MiB | spans | slice KiB | depth | B10 GB/s | raw wire or plain "
    "copy | gather | "
    "scatter | P3 (spread) | limited by | queued us | ready us | data us | result us |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

inline void report_throughput(Sink& sink, Setup const& setup, Command const& c,
                              Measurement const& m) {
  double const bytes = static_cast<double>(setup.workload.bytes());
  auto const speed = [&](How how) { return bytes / m.median(how) * 1e-9; };
  auto const p3 = m.p3();
  auto const wire = to_string(setup.wire);
  auto const engine_name = engine_of(setup, c);
  auto const engine = engine_name.c_str();
  auto const name = setup.workload.name.c_str();
  auto const slice = static_cast<unsigned long long>(c.slice);
  sink.line(
      'T',
      format("| %s | %s | %s | %.1f | %zu | %llu | %u | %.2f | %.2f | %.2f | %.2f | **%.3f** "
             "(%.3f..%.3f) | %s | %.0f | %.0f | %.0f | %.0f |",
             engine, wire, name, bytes / 1048576, setup.workload.spans(), slice >> 10, c.depth,
             speed(How::b10), speed(How::wire), speed(How::gather), speed(How::scatter), p3.median,
             p3.min, p3.max, m.limit(), m.stage(&StageTimes::queued), m.stage(&StageTimes::ready),
             m.stage(&StageTimes::data), m.stage(&StageTimes::result)));
  sink.line('J', format("{\"kind\": \"throughput\", \"engine\": \"%s\", \"wire\": \"%s\", "
                        "\"workload\": \"%s\", \"bytes\": %.0f, \"spans\": %zu, \"slice\": %llu, "
                        "\"depth\": %u, \"repeats\": %zu, \"b10_gb_s\": %.4f, \"wire_gb_s\": %.4f, "
                        "\"gather_gb_s\": %.4f, \"scatter_gb_s\": %.4f, \"p3\": %.4f, "
                        "\"p3_min\": %.4f, \"p3_max\": %.4f, \"limited_by\": \"%s\", "
                        "\"ready_us\": %.1f, \"data_us\": %.1f, \"result_us\": %.1f}",
                        engine, wire, name, bytes, setup.workload.spans(), slice, c.depth,
                        m.of(How::b10).size(), speed(How::b10), speed(How::wire),
                        speed(How::gather), speed(How::scatter), p3.median, p3.min, p3.max,
                        m.limit(), m.stage(&StageTimes::ready), m.stage(&StageTimes::data),
                        m.stage(&StageTimes::result)));
}

inline constexpr char const* latency_head =
    "| engine | wire | progress | block | WRITE us p50 | p99 | raw there and back p50 | p99 | "
    "gather "
    "p50 | scatter p50 | WRITE/(4 raw + copies) | queued us | ready us | data us | result us |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

inline void report_latency(Sink& sink, Setup const& setup, Command const& c, Measurement const& m) {
  auto const us = [&](How how, double q) { return quantile(m.of(how), q) * 1e6; };
  double const copies = us(How::gather, 0.5) + us(How::scatter, 0.5);
  double const p7 = us(How::b10, 0.5) / (4 * us(How::wire, 0.5) + copies);
  auto const mode = c.progress == Progress::manual ? "manual" : "thread";
  auto const name = setup.workload.name.c_str();
  sink.line(
      'T',
      format("| %s | %s | %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | **%.2f** | "
             "%.1f | %.1f | %.1f | %.1f |",
             to_string(c.engine), to_string(setup.wire), mode, name, us(How::b10, 0.5),
             us(How::b10, 0.99), us(How::wire, 0.5), us(How::wire, 0.99), us(How::gather, 0.5),
             us(How::scatter, 0.5), p7, m.stage(&StageTimes::queued), m.stage(&StageTimes::ready),
             m.stage(&StageTimes::data), m.stage(&StageTimes::result)));
  sink.line('J',
            format("{\"kind\": \"latency\", \"engine\": \"%s\", \"wire\": \"%s\", "
                   "\"progress\": \"%s\", \"block\": \"%s\", \"repeats\": %zu, "
                   "\"write_us_p50\": %.2f, \"write_us_p99\": %.2f, \"raw_us_p50\": %.2f, "
                   "\"gather_us_p50\": %.2f, \"scatter_us_p50\": %.2f, \"p7\": %.3f, "
                   "\"ready_us\": %.2f, \"data_us\": %.2f, \"result_us\": %.2f}",
                   to_string(c.engine), to_string(setup.wire), mode, name, m.of(How::b10).size(),
                   us(How::b10, 0.5), us(How::b10, 0.99), us(How::wire, 0.5), us(How::gather, 0.5),
                   us(How::scatter, 0.5), p7, m.stage(&StageTimes::ready),
                   m.stage(&StageTimes::data), m.stage(&StageTimes::result)));
}

inline constexpr char const* verify_head =
    "| workload | engine | wire | bytes | spans | GB/s (one run, cold) | wrong words |\n"
    "|---|---|---|---|---|---|---|";

inline void report_verify(Sink& sink, Setup const& setup, Command const& c, Run const& run) {
  auto const bytes = static_cast<unsigned long long>(setup.workload.bytes());
  auto const wrong = static_cast<unsigned long long>(run.destination.words + run.source.words);
  double const speed = static_cast<double>(bytes) / run.seconds * 1e-9;
  auto const engine_name = engine_of(setup, c);
  auto const engine = engine_name.c_str();
  auto const wire = to_string(setup.wire);
  sink.line('T', format("| %s | %s | %s | %llu | %zu | %.2f | %llu |", setup.workload.name.c_str(),
                        engine, wire, bytes, setup.workload.spans(), speed, wrong));
  sink.line('J', format("{\"kind\": \"verify\", \"engine\": \"%s\", \"wire\": \"%s\", "
                        "\"workload\": \"%s\", \"bytes\": %llu, \"spans\": %zu, \"gb_s\": %.4f, "
                        "\"wrong_words\": %llu}",
                        engine, wire, setup.workload.name.c_str(), bytes, setup.workload.spans(),
                        speed, wrong));
}

/// Where the first wrong word is.
[[nodiscard]] inline std::string describe(Run const& run) {
  auto const one = [](Wrong const& w, char const* pool) {
    return w.words == 0
               ? std::string()
               : std::to_string(w.words) + " wrong words in the " + pool +
                     " pool, the first at byte " + std::to_string(w.first * word_bytes) + "; ";
  };
  return one(run.destination, "destination") + one(run.source, "source");
}

}  // namespace b10::bench
