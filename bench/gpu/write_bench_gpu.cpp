// WRITE from GPU to GPU through pinned host memory, between two processes: every byte of every
// workload (--verify), what it reaches of its slowest stage (P3), and the latency of one block.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "gpu_arguments.hpp"
#include "gpu_devices.hpp"
#include "gpu_peers.hpp"
#include "gpu_report.hpp"

namespace {

using namespace b10;
using namespace b10::bench;
using transport::ucx::Wire;

/// Wrong bytes: nothing that follows means anything.
struct WrongBytes {
  std::string where;
};

/// What all parts of the program need.
struct Session {
  Arguments args;
  int sender_gpu;
  int receiver_gpu;
  Sink sink;
  Instant deadline;

  [[nodiscard]] double left_s() const { return (deadline - steady_now()).seconds(); }
  [[nodiscard]] Setup setup(Workload const& w, Wire wire, bool bare_loop) const {
    // Rotated inputs do not stay in the GPU's cache.
    auto const sets = std::clamp<std::uint64_t>((512u << 20) / w.bytes(), 2, 16);
    bool const loop = bare_loop && args.staging == StagingKind::pinned;
    return {w,
            static_cast<std::size_t>(sets),
            wire,
            sender_gpu,
            receiver_gpu,
            loop,
            args.staging,
            args.cpus};
  }
  [[nodiscard]] std::vector<EngineKind> engines(std::vector<EngineKind> otherwise) const {
    return args.engines.empty() ? otherwise : args.engines;
  }
};

std::vector<EngineKind> all_engines() {
  return {EngineKind::staged, EngineKind::digested, EngineKind::direct,
          EngineKind::copy_engine_batch};
}

std::string title(Setup const& setup, Command const& c) {
  return setup.workload.name + ", " + to_string(c.engine) + ", " + to_string(setup.wire) + ", " +
         std::to_string(c.depth) + " slices of " + std::to_string(c.slice >> 10) + " KiB";
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Runs `body` between open and close. False, with a line that says why, if it failed; the pair can
/// go on then, unless bytes were wrong.
template <class Body>
bool with_rig(Session& s, Sender& sender, Setup const& setup, Command const& c, Body body) {
  if (s.left_s() < 0) {
    s.sink.line('S', "skipped: " + title(setup, c) + " (the budget is used up, see --budget)");
    return true;
  }
  bool good = false;
  try {
    sender.open(c);
    body();
    good = true;
  } catch (WrongBytes const& wrong) {
    s.sink.line('X', "WRONG BYTES: " + title(setup, c) + ": " + wrong.where);
    s.sink.line('W', {});
    throw std::runtime_error("wrong bytes");
  } catch (std::exception const& e) {
    s.sink.line('X', "FAILED: " + title(setup, c) + ": " + one_line(e.what()));
  }
  sender.close(c);
  return good;
}

/// One run that counts only if every word is right.
Run exact(Sender& sender, Command const& c) {
  auto const run = sender.once(c);
  if (!run.why.empty()) throw std::runtime_error(run.why);
  if (run.destination.words + run.source.words > 0) throw WrongBytes{describe(run)};
  return run;
}

Measurement measure(Sender& sender, Command c, std::size_t repeats) {
  Measurement m;
  c.set = 0;
  for (std::size_t i = 0; i <= repeats; ++i) {  // the first round warms up and is not counted
    for (std::size_t how = 0; how < hows; ++how, ++c.set) {
      c.how = static_cast<How>(how);
      auto const run = exact(sender, c);
      if (i == 0) continue;
      m.seconds[how].push_back(run.seconds);
      if (c.how == How::b10) m.stages.push_back(run.stages);
    }
  }
  return m;
}

/// `send` does everything that the sender's process does; it returns whether all went well.
template <class Send>
bool run(Session& s, Setup const& setup, Send send) {
  auto const limit = static_cast<unsigned>(s.args.budget_s) + 120;
  bool const good = run_pair(
      [&](Side side) {
        alarm(limit);  // a GPU that hangs must not hang the machine's user
        Sender sender(side, setup);
        if (!send(sender)) throw std::runtime_error("not everything went well, see above");
      },
      [&](Side side) {
        alarm(limit);
        Receiver(side, setup).serve();
      });
  if (!good)
    s.sink.line('X', "FAILED: " + setup.workload.name + " over " + to_string(setup.wire) +
                         ": the processes said why, above");
  return good;
}

/// Whether a pair has found wrong bytes: then nothing more is run.
bool spoilt(Session const& s) { return !s.sink.lines("W").empty(); }

bool throughput_of(Session& s, Wire wire, Workload const& w) {
  auto const setup = s.setup(w, wire, true);
  return run(s, setup, [&](Sender& sender) {
    bool good = true;
    bool first = true;
    for (auto const engine : s.engines({EngineKind::staged})) {
      for (auto const slice : s.args.slices) {
        for (auto const depth : s.args.depths) {
          Command const c{Order::open, How::b10, engine, Progress::thread, depth, slice, 0};
          good &= with_rig(s, sender, setup, c, [&] {
            if (first) s.sink.line('E', one_line(sender.explain()));
            first = false;
            report_throughput(s.sink, setup, c, measure(sender, c, s.args.repeats));
          });
        }
      }
    }
    return good;
  });
}

bool throughput(Session& s) {
  auto const all = workloads();
  auto const loads = s.args.loads.empty() ? std::vector<Workload>{all[1], all[0], scaled(all[2], 4),
                                                                  scaled(all[3], 2), all[6]}
                                          : s.args.loads;
  s.sink.line('T', std::string("\n") + throughput_head);
  bool good = true;
  for (auto const wire : s.args.wires) {
    for (auto const& w : loads) {
      if (spoilt(s)) return false;
      if (s.left_s() < 5) {
        s.sink.line('S', "skipped: " + w.name + " over " + to_string(wire) +
                             " (the budget is used up, see --budget)");
        continue;
      }
      good &= throughput_of(s, wire, w);
    }
  }
  return good;
}

bool latency_of(Session& s, Wire wire, Workload const& block) {
  auto setup = s.setup(block, wire, true);
  setup.sets = 256;
  return run(s, setup, [&](Sender& sender) {
    bool good = true;
    for (auto const engine : s.engines(all_engines())) {
      for (auto const progress : {Progress::manual, Progress::thread}) {
        Command const c{Order::open, How::b10, engine, progress, 1, std::uint64_t{1} << 20, 0};
        good &= with_rig(s, sender, setup, c, [&] {
          report_latency(s.sink, setup, c, measure(sender, c, s.args.quick ? 10 : 500));
        });
      }
    }
    return good;
  });
}

bool latency(Session& s) {
  s.sink.line('T', std::string("\n") + latency_head);
  bool good = true;
  for (auto const wire : s.args.wires) {
    for (Workload const& block :
         {Workload{"64 KiB", {{1, 1, 65'536}}}, Workload{"16 x 4 KiB", {{16, 1, 4096}}}}) {
      if (spoilt(s)) return false;
      good &= latency_of(s, wire, block);
    }
  }
  return good;
}

bool verify_of(Session& s, Wire wire, Workload const& w, std::vector<EngineKind> const& engines) {
  auto const setup = s.setup(w, wire, false);
  return run(s, setup, [&](Sender& sender) {
    bool good = true;
    std::uint64_t set = 0;
    for (auto const engine : engines) {
      Command const c{
          Order::open,          How::b10, engine, Progress::thread, s.args.depths.front(),
          s.args.slices.back(), set++};
      good &= with_rig(s, sender, setup, c, [&] {
        auto const run = sender.once(c);
        if (!run.why.empty()) throw std::runtime_error(run.why);
        report_verify(s.sink, setup, c, run);
        if (run.destination.words + run.source.words > 0) throw WrongBytes{describe(run)};
      });
    }
    return good;
  });
}

/// What has been seen of pairs so far, to guess what the next one will take.
class Pace {
 public:
  [[nodiscard]] double guess_s(double bytes) const { return start_s + bytes / bytes_per_s_; }
  void saw(double bytes, double seconds) {
    if (bytes < 1e9) return;  // mostly start-up
    bytes_per_s_ = std::min(bytes_per_s_, bytes / std::max(seconds - start_s, 0.1));
  }

 private:
  static constexpr double start_s = 4;
  double bytes_per_s_ = 3e9;
};

bool verify(Session& s) {
  auto loads = s.args.loads.empty() ? workloads() : s.args.loads;
  std::sort(loads.begin(), loads.end(),
            [](auto const& a, auto const& b) { return a.bytes() < b.bytes(); });
  s.sink.line('T',
              "\nEvery word of the destination pool (spans: the source's words, elsewhere: the "
              "canary) and of the source pool is compared on the GPU; slices of " +
                  std::to_string(s.args.slices.back() >> 10) + " KiB, " +
                  std::to_string(s.args.depths.front()) + " in flight.\n");
  s.sink.line('T', verify_head);
  Pace pace[2];
  bool good = true;
  for (auto const& w : loads) {
    bool all_done = false;  // all engines over one wire are enough; the other gets the first
    for (auto const wire : s.args.wires) {
      if (spoilt(s)) return false;
      auto engines = s.engines(all_engines());
      if (all_done) engines.resize(1);
      auto const bytes = static_cast<double>(w.bytes() * engines.size());
      auto& seen = pace[wire == Wire::tcp ? 0 : 1];
      if (seen.guess_s(bytes) > s.left_s()) {
        s.sink.line('S',
                    "skipped: " + w.name + " over " + to_string(wire) +
                        format(" (it would take some %.0f s, %.0f s are left of the budget of "
                               "%.0f s, see --budget)",
                               seen.guess_s(bytes), std::max(s.left_s(), 0.0), s.args.budget_s));
        continue;
      }
      auto const start = steady_now();
      good &= verify_of(s, wire, w, engines);
      seen.saw(bytes, (steady_now() - start).seconds());
      all_done = true;
    }
  }
  return good;
}

bool save(Session const& s, std::string const& gpus, int argc, char** argv) {
  Provenance from;
  for (int i = 0; i < argc; ++i) from.command += std::string(i ? " " : "") + argv[i];
  std::string table;
  for (auto const& line : s.sink.lines("TSX")) table += line + "\n";
  for (auto const& line : s.sink.lines("E")) from.lanes += line + " ";
  from.lanes += gpus;
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  from.ucx = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  auto const name = s.args.throughput ? "write_gpu" : s.args.verify ? "verify_gpu" : "latency_gpu";
  return write_results(s.args.out, name, from, s.sink.lines("J"), table);
}

}  // namespace

int main(int argc, char** argv) {
  auto const args = parse(argc, argv);
  auto const devices = find_devices();
  if (devices.count == 0) {
    std::printf("skipped: no CUDA device (%s)\n", devices.text.c_str());
    return 0;
  }
  std::FILE* const file = std::tmpfile();
  if (!file) return 1;
  int const used = std::min({devices.count, args.device_count, 2});
  Session s{args, 0, used - 1, Sink(file),
            steady_now() + milliseconds(static_cast<std::int64_t>(args.budget_s * 1e3))};
  s.sink.line('T', devices.text + "\n");
  s.sink.line('T', used == 2 ? "Sender on GPU 0, receiver on GPU 1."
                             : "Sender and receiver both on GPU 0: they share its copy engines and "
                               "take turns with its multiprocessors.");
  s.sink.line('T', "Their CPUs: " + to_string(args.cpus[0]) + "; " + to_string(args.cpus[1]) + ".");
  bool good = true;
  if (args.verify) good = verify(s) && good;
  if (args.throughput && !spoilt(s)) good = throughput(s) && good;
  if (args.latency && !spoilt(s)) good = latency(s) && good;
  if (!args.out.empty()) good = save(s, devices.text, argc, argv) && good;
  auto const rows = s.sink.lines("J").size();
  std::printf("\n%s: %zu rows, %zu skipped\n",
              !good  ? "FAILED, see above"
              : rows ? "All bytes right"
                     : "Nothing was run",
              rows, s.sink.lines("S").size());
  std::fclose(file);
  return good ? 0 : 1;
}
