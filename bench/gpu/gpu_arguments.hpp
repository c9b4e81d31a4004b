// The command line of write_bench_gpu.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <b10/transport/ucx/options.hpp>

#include "../cpus.hpp"
#include "../workloads.hpp"
#include "gpu_rig.hpp"

namespace b10::bench {

inline constexpr char const* usage =
    "write_bench_gpu [--verify | --latency] [--quick] [--out DIR] [--budget SECONDS]\n"
    "                [--engine staged|digested|direct|copy_engine_batch]... [--wire "
    "tcp|shared_memory]\n"
    "                [--staging pinned|shared|device]\n"
    "                [--workload NAME]... [--divisor N] [--slice KIB]... [--depth N]...\n"
    "                [--repeats N] [--device-count N] [--cpus A-B,C-D]\n"
    "\n"
    "Two processes, the sender on GPU 0, the receiver on GPU 1 (GPU 0 if there is one only), UCX\n"
    "between them. Every word of both pools is checked after every WRITE; a wrong one ends the\n"
    "program with 1.\n"
    "  (no mode)   P3: WRITE beside the bare wire, the gather alone and the scatter alone, in "
    "turn\n"
    "  --verify    every workload at full size, every engine, once each\n"
    "  --latency   one block of 64 KiB, 500 times, both ways of progress\n"
    "  --quick     all three (or the mode named) with tiny sizes, once: does it run\n"
    "  --staging   shared, device: peers write the receiver's staging; beside one plain copy (P4, "
    "P5)\n"
    "  --budget    what would take longer is skipped, and said so (240 s; without a mode 480 s)\n"
    "  --device-count  uses no more GPUs than that; 1: both processes on GPU 0\n"
    "  --cpus      of sender and receiver; else four each of the first eight, or one each\n"
    "Without a GPU it says so and exits with 0.\n";

struct Arguments {
  bool verify = false;
  bool latency = false;
  bool throughput = false;
  bool quick = false;
  std::string out{};
  double budget_s = 0;
  std::vector<EngineKind> engines{};  ///< empty: as the mode has them
  StagingKind staging = StagingKind::pinned;
  std::vector<transport::ucx::Wire> wires{transport::ucx::Wire::tcp,
                                          transport::ucx::Wire::shared_memory};
  std::vector<Workload> loads{};        ///< empty: as the mode has them
  std::vector<std::uint64_t> slices{};  ///< [bytes]
  std::vector<unsigned> depths{};
  std::size_t repeats = 5;
  int device_count = 1 << 20;
  std::array<Cpus, 2> cpus = default_cpus();
};

[[noreturn]] inline void refuse(std::string const& what) {
  std::fprintf(stderr, "write_bench_gpu: %s\n%s", what.c_str(), usage);
  std::exit(2);
}

[[nodiscard]] inline Workload find_workload(std::string const& name) {
  std::string known;
  for (auto& w : workloads()) {
    if (w.name == name) return w;
    known += " " + w.name;
  }
  refuse("no workload \"" + name + "\"; there are" + known);
}

[[nodiscard]] inline EngineKind find_engine(std::string const& name) {
  if (name == "staged") return EngineKind::staged;
  if (name == "digested") return EngineKind::digested;
  if (name == "direct") return EngineKind::direct;
  if (name == "copy_engine_batch") return EngineKind::copy_engine_batch;
  refuse("no engine \"" + name + "\"");
}

[[nodiscard]] inline StagingKind find_staging(std::string const& name) {
  for (auto const kind : {StagingKind::pinned, StagingKind::shared, StagingKind::device})
    if (name == to_string(kind)) return kind;
  refuse("no staging \"" + name + "\"");
}

[[nodiscard]] inline transport::ucx::Wire find_wire(std::string const& name) {
  if (name == "tcp") return transport::ucx::Wire::tcp;
  if (name == "shared_memory") return transport::ucx::Wire::shared_memory;
  refuse("no wire \"" + name + "\"");
}

[[nodiscard]] inline std::uint64_t to_number(std::string const& text) {
  char* end = nullptr;
  auto const n = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || n == 0) refuse("\"" + text + "\" is no number of 1 or more");
  return n;
}

[[nodiscard]] inline std::array<Cpus, 2> find_cpus(std::string const& text) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (std::sscanf(text.c_str(), "%u-%u,%u-%u", &a, &b, &c, &d) == 4 && a <= b && c <= d)
    return {range(a, b), range(c, d)};
  if (std::sscanf(text.c_str(), "%u,%u", &a, &b) == 2) return {range(a, a), range(b, b)};
  refuse("--cpus takes two numbers or ranges, as in 0,2 or 0-3,4-7");
}

/// What was not said.
inline void complete(Arguments& a, std::size_t divisor) {
  for (Workload& w : a.loads) w = scaled(std::move(w), divisor);
  if (a.slices.empty()) a.slices = {1u << 20, 4u << 20};
  if (a.depths.empty()) a.depths = {4, 8};
  bool const mode = a.verify || a.latency;
  a.throughput = !mode;
  if (a.quick && !mode) a.verify = a.latency = true;
  if (a.budget_s == 0) a.budget_s = mode ? 240 : 480;
  if (!a.quick) return;
  a.loads = {scaled(workloads()[0], 8), scaled(workloads()[6], 64)};
  a.slices = {256u << 10};
  a.depths = {4};
  a.repeats = 1;
}

[[nodiscard]] inline Arguments parse(int argc, char** argv) {
  Arguments a;
  std::size_t divisor = 1;
  std::vector<transport::ucx::Wire> wires;
  for (int i = 1; i < argc; ++i) {
    std::string_view const key = argv[i];
    auto const value = [&]() -> std::string {
      if (i + 1 == argc) refuse(std::string(key) + " takes a value");
      return argv[++i];
    };
    if (key == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    if (key == "--verify") {
      a.verify = true;
    } else if (key == "--latency") {
      a.latency = true;
    } else if (key == "--quick") {
      a.quick = true;
    } else if (key == "--out") {
      a.out = value();
    } else if (key == "--budget") {
      a.budget_s = static_cast<double>(to_number(value()));
    } else if (key == "--engine") {
      a.engines.push_back(find_engine(value()));
    } else if (key == "--staging") {
      a.staging = find_staging(value());
    } else if (key == "--wire") {
      wires.push_back(find_wire(value()));
    } else if (key == "--workload") {
      a.loads.push_back(find_workload(value()));
    } else if (key == "--divisor") {
      divisor = to_number(value());
    } else if (key == "--slice") {
      a.slices.push_back(to_number(value()) << 10);
    } else if (key == "--depth") {
      a.depths.push_back(static_cast<unsigned>(to_number(value())));
    } else if (key == "--repeats") {
      a.repeats = to_number(value());
    } else if (key == "--device-count") {
      a.device_count = static_cast<int>(to_number(value()));
    } else if (key == "--cpus") {
      a.cpus = find_cpus(value());
    } else {
      refuse("no option \"" + std::string(key) + "\"");
    }
  }
  if (!wires.empty()) a.wires = wires;
  complete(a, divisor);
  return a;
}

}  // namespace b10::bench
