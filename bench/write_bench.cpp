// WRITE between two processes against bare UCX: throughput of 64 MiB and more (P1) and the latency
// of one 64 KiB block (P7). Each is run in turn with its baselines, A B C A B C, and every byte
// of every run is checked, so wrong bytes end the program.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "report.hpp"
#include "write_peers.hpp"

namespace {

using namespace b10;
using namespace b10::bench;
using transport::ucx::Wire;

constexpr char const* usage =
    "write_bench [--quick] [--sweep] [--out DIR] [--wire tcp|shared_memory] [--workload NAME]\n"
    "            [--divisor N] [--slice KIB]... [--depth N]... [--repeats N] [--latency-only]\n"
    "            [--payload ucx|shared]\n";

struct Arguments {
  bool quick = false;  ///< a small transfer of everything, once: does it run, are the bytes right
  bool latency = true;
  bool throughput = true;
  std::vector<bool> shares{false, true};  ///< payloads by UCX; written into the peer's staging
  std::string out{};
  std::vector<Wire> wires{Wire::tcp, Wire::shared_memory};
  std::vector<Workload> loads{scaled(workloads()[1], 4), workloads()[6], scaled(workloads()[5], 8),
                              workloads()[0]};
  std::vector<std::uint64_t> slices{256u << 10, 4u << 20};
  std::vector<unsigned> depths{2, 4};
  std::size_t repeats = 7;
};

Workload find_workload(std::string_view name) {
  for (auto& w : workloads()) {
    if (w.name == name) return w;
  }
  std::fprintf(stderr, "no workload \"%s\"\n", std::string(name).c_str());
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::size_t divisor = 1;
  std::vector<std::uint64_t> slices;
  std::vector<unsigned> depths;
  std::string load;
  for (int i = 1; i < argc; ++i) {
    std::string_view const key = argv[i];
    auto const value = [&]() -> std::string {
      if (i + 1 < argc) return argv[++i];
      std::fputs(usage, stderr);
      std::exit(2);
    };
    auto const number = [&] { return std::strtoul(value().c_str(), nullptr, 10); };
    if (key == "--quick") {
      a.quick = true;
    } else if (key == "--sweep") {
      a.loads = {scaled(workloads()[1], 4)};
      a.latency = false;
      a.slices = {256u << 10, 512u << 10, 1u << 20, 2u << 20, 4u << 20, 8u << 20};
      a.depths = {2, 4, 8};
    } else if (key == "--out") {
      a.out = value();
    } else if (key == "--wire") {
      a.wires = {value() == "tcp" ? Wire::tcp : Wire::shared_memory};
    } else if (key == "--payload") {
      a.shares = {value() == "shared"};
    } else if (key == "--workload") {
      load = value();
    } else if (key == "--divisor") {
      divisor = number();
    } else if (key == "--slice") {
      slices.push_back(number() << 10);
    } else if (key == "--depth") {
      depths.push_back(static_cast<unsigned>(number()));
    } else if (key == "--repeats") {
      a.repeats = number();
    } else if (key == "--latency-only") {
      a.throughput = false;
    } else {
      std::fputs(usage, stderr);
      std::exit(key == "--help" ? 0 : 2);
    }
  }
  if (!load.empty()) {
    a.loads = {scaled(find_workload(load), divisor)};
    a.latency = false;
  }
  if (!slices.empty()) a.slices = slices;
  if (!depths.empty()) a.depths = depths;
  if (a.quick) {
    a.loads = {scaled(workloads()[0], 8), scaled(workloads()[6], 64)};
    a.slices = {256u << 10};
    a.repeats = 1;
  }
  return a;
}

/// One line of the result: the loops in turn, `repeats` times.
struct Measurement {
  std::vector<double> seconds[hows];
  StageTimes stages{};  ///< of the last WRITE
};

Measurement measure(Sender& sender, Command c, std::size_t repeats) {
  Measurement m;
  std::uint64_t set = 0;
  for (std::size_t i = 0; i <= repeats; ++i) {  // the first round warms up and is not counted
    for (std::size_t how = 0; how < hows; ++how) {
      c.how = static_cast<How>(how);
      c.set = set++;
      double const time = sender.once(c);
      if (i > 0) m.seconds[how].push_back(time);
      if (c.how == How::b10) m.stages = sender.stages();
    }
  }
  return m;
}

/// Ratios of neighbours in time: what the machine does meanwhile hits both.
Spread ratio(Measurement const& m, How numerator, How denominator) {
  std::vector<double> all;
  auto const& a = m.seconds[static_cast<std::size_t>(numerator)];
  auto const& b = m.seconds[static_cast<std::size_t>(denominator)];
  for (std::size_t i = 0; i < a.size(); ++i) all.push_back(a[i] / b[i]);
  return spread(all);
}

std::string format(char const* pattern, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// Rows leave the sender's process through a file: "J json", "T table", "E" what explain() says.
class Sink {
 public:
  explicit Sink(std::FILE* file) : file_(file) {}
  void line(char kind, std::string const& text) {
    for (std::size_t at = 0; at <= text.size();) {  // each line of it for itself
      auto const end = std::min(text.find('\n', at), text.size());
      std::fprintf(file_, "%c%s\n", kind, text.substr(at, end - at).c_str());
      at = end + 1;
    }
    std::fflush(file_);
    if (kind == 'T') std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

 private:
  std::FILE* file_;
};

constexpr char const* throughput_head =
    "| wire | payload | workload | MiB | spans | slice KiB | depth | B10 GB/s | raw | B10/raw "
    "(spread) | by "
    "hand | "
    "B10/by hand | wire only | hot raw | wire only/hot (spread) | ready us | data us | result us "
    "|\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";
constexpr char const* latency_head =
    "| wire | progress | WRITE us p50 | p99 | raw there and back p50 | WRITE/raw | ready us | data "
    "us | "
    "result us |\n|---|---|---|---|---|---|---|---|---|";

double us(Duration d) { return static_cast<double>(d.ns) * 1e-3; }

char const* payload_of(Setup const& setup) { return setup.share ? "shared staging" : "UCX"; }

void report_throughput(Sink& sink, Setup const& setup, Command const& c, Measurement const& m) {
  double const bytes = static_cast<double>(setup.workload.bytes());
  auto const speed = [&](How how) {
    return bytes / spread(m.seconds[static_cast<std::size_t>(how)]).median * 1e-9;
  };
  auto const raw = ratio(m, How::raw, How::b10);
  auto const hand = ratio(m, How::by_hand, How::b10);
  auto const lane = ratio(m, How::raw_hot, How::wire_only);
  auto const wire = to_string(setup.wire);
  sink.line(
      'T',
      format(
          "| %s | %s | %s | %.1f | %zu | %llu | %u | %.2f | %.2f | **%.2f** (%.2f..%.2f) | %.2f | "
          "**%.2f** | %.2f | %.2f | **%.2f** (%.2f..%.2f) | %.0f | %.0f | %.0f |",
          wire, payload_of(setup), setup.workload.name.c_str(), bytes / 1048576,
          setup.workload.spans(), static_cast<unsigned long long>(c.slice >> 10), c.depth,
          speed(How::b10), speed(How::raw), raw.median, raw.min, raw.max, speed(How::by_hand),
          hand.median, speed(How::wire_only), speed(How::raw_hot), lane.median, lane.min, lane.max,
          us(m.stages.ready), us(m.stages.data), us(m.stages.result)));
  sink.line(
      'J',
      format("{\"kind\": \"throughput\", \"wire\": \"%s\", \"payload\": \"%s\", \"workload\": "
             "\"%s\", \"bytes\": %.0f, "
             "\"spans\": %zu, \"slice\": %llu, \"depth\": %u, \"repeats\": %zu, "
             "\"b10_gb_s\": %.4f, \"raw_gb_s\": %.4f, \"by_hand_gb_s\": %.4f, "
             "\"wire_only_gb_s\": %.4f, \"hot_gb_s\": %.4f, \"p1\": %.4f, \"p1_min\": %.4f, "
             "\"p1_max\": %.4f, \"to_by_hand\": %.4f, \"lane_p1\": %.4f, \"lane_p1_min\": %.4f, "
             "\"lane_p1_max\": %.4f}",
             wire, payload_of(setup), setup.workload.name.c_str(), bytes, setup.workload.spans(),
             static_cast<unsigned long long>(c.slice), c.depth, m.seconds[0].size(),
             speed(How::b10), speed(How::raw), speed(How::by_hand), speed(How::wire_only),
             speed(How::raw_hot), raw.median, raw.min, raw.max, hand.median, lane.median, lane.min,
             lane.max));
}

void report_latency(Sink& sink, Setup const& setup, Command const& c, Measurement const& m) {
  auto const& b10 = m.seconds[static_cast<std::size_t>(How::b10)];
  auto const& raw = m.seconds[static_cast<std::size_t>(How::raw)];
  auto const mode = c.progress == Progress::manual ? "manual" : "thread";
  double const p50 = quantile(b10, 0.5) * 1e6;
  double const p99 = quantile(b10, 0.99) * 1e6;
  double const base = quantile(raw, 0.5) * 1e6;
  sink.line('T', format("| %s | %s | %.1f | %.1f | %.1f | **%.2f** | %.1f | %.1f | %.1f |",
                        to_string(setup.wire), mode, p50, p99, base, p50 / base, us(m.stages.ready),
                        us(m.stages.data), us(m.stages.result)));
  sink.line(
      'J',
      format("{\"kind\": \"latency\", \"wire\": \"%s\", \"progress\": \"%s\", \"bytes\": 65536, "
             "\"repeats\": %zu, \"write_us_p50\": %.2f, \"write_us_p99\": %.2f, "
             "\"raw_us_p50\": %.2f, \"p7\": %.3f}",
             to_string(setup.wire), mode, b10.size(), p50, p99, base, p50 / base));
}

bool run_throughput(Arguments const& a, Wire wire, bool share, Workload const& w, std::FILE* file) {
  Setup const setup{w, 4, wire, share};
  return run_pair(
      [&](Side side) {
        Sender sender(side, setup);
        Sink sink(file);
        for (auto const slice : a.slices) {
          for (auto const depth : a.depths) {
            Command const c{Order::open, How::b10, Progress::thread, depth, slice, 0};
            sender.open(c);
            if (slice == a.slices.front() && depth == a.depths.front())
              sink.line('E', sender.explain());
            report_throughput(sink, setup, c, measure(sender, c, a.repeats));
            sender.close(c);
          }
        }
      },
      [&](Side side) { Receiver(side, setup).serve(); });
}

bool run_latency(Arguments const& a, Wire wire, std::FILE* file) {
  Setup const setup{{"one block", {{1, 1, 65'536}}}, 256, wire, false};
  return run_pair(
      [&](Side side) {
        Sender sender(side, setup);
        Sink sink(file);
        for (auto const progress : {Progress::manual, Progress::thread}) {
          Command const c{Order::open, How::b10, progress, 1, std::uint64_t{1} << 20, 0};
          sender.open(c);
          report_latency(sink, setup, c, measure(sender, c, a.quick ? 10 : 500));
          sender.close(c);
        }
      },
      [&](Side side) { Receiver(side, setup).serve(); });
}

/// The lines of one kind that a sender has left in the file.
std::vector<std::string> lines(std::FILE* file, char kind) {
  std::vector<std::string> out;
  std::rewind(file);
  char text[2048];
  while (std::fgets(text, sizeof text, file)) {
    std::string line(text);
    if (!line.empty() && line.back() == '\n') line.pop_back();
    if (!line.empty() && line[0] == kind) out.push_back(line.substr(1));
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  auto const a = parse(argc, argv);
  std::FILE* const file = std::tmpfile();
  if (!file) return 1;
  bool good = true;
  Sink sink(file);
  if (a.throughput) sink.line('T', throughput_head);
  for (auto const wire : a.wires) {
    for (bool const share : a.shares) {
      for (auto const& w : a.loads)
        good = a.throughput && good ? run_throughput(a, wire, share, w, file) : good;
    }
  }
  if (a.latency) {
    sink.line('T', std::string("\n") + latency_head);
    for (auto const wire : a.wires) good = good && run_latency(a, wire, file);
  }
  if (!a.out.empty()) {
    Provenance from;
    for (int i = 0; i < argc; ++i) from.command += std::string(i ? " " : "") + argv[i];
    std::string table;
    for (auto const& line : lines(file, 'T')) table += line + "\n";
    for (auto const& line : lines(file, 'E')) from.lanes += line + " ";
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    from.ucx = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
    good = write_results(a.out, "write", from, lines(file, 'J'), table) && good;
  }
  std::fclose(file);
  if (!good) std::fputs("write_bench: failed\n", stderr);
  return good ? 0 : 1;
}
