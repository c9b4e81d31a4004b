// The command line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/arguments.hpp"
#include "common/geometry.hpp"
#include "common/trace.hpp"

namespace mini {

struct Options {
  std::string models = B10_DEMO_MODELS;
  std::string model = "gpt-oss-120b";
  std::uint64_t tp = 8;
  std::string trace{};
  std::uint64_t requests = 0;
  std::uint64_t scale = 16;
  std::uint64_t tokens = 4096;
  std::uint64_t chunk = 256;
  std::uint64_t compute_us = 20;
  std::uint64_t concurrency = 6;
  std::uint64_t cancels = 50;
  std::uint64_t stalls = 5;
  std::uint64_t kills = 0;
  std::uint64_t deadline_ms = 5000;
  std::uint64_t pool_mib = 256;
  bool pipelined = true;
  bool gpu = false;
  std::uint64_t seed = 1;
  std::string timeline{};
  bool help = false;

  std::string fault{};   ///< for tests: what this program itself does wrong
  bool prefill = false;  ///< set by the decode process when it starts the other one
  int channel = -1;

  /// Tokens that one hash id of a prompt stands for.
  [[nodiscard]] std::uint64_t hash_tokens() const { return demo::hash_tokens / scale; }
};

namespace detail {

using Knob = demo::BasicKnob<Options>;
using View = std::string_view;
using demo::number;
using demo::refuse;

inline constexpr Knob knobs[] = {
    {"--trace", "FILE",
     "replay a request trace: its prompts and its prefix reuse (default: made up)",
     [](Options& o, View, View v) { o.trace = v; }},
    {"--requests", "N", "how many, 1 to 1000000 (default 200, with --trace 1000)",
     [](Options& o, View n, View v) { o.requests = number(n, v, 1, 1'000'000); }},
    {"--scale", "N",
     "prompts are so many times shorter than the trace's: 1, 2, 4, 8 or 16 (default 16)",
     [](Options& o, View n, View v) {
       o.scale = number(n, v, 1, 16);
       if ((o.scale & (o.scale - 1)) != 0) refuse(n, v, "1, 2, 4, 8 and 16");
     }},
    {"--tokens", "N", "longest prompt, after scaling, 1 to 131072 (default 4096)",
     [](Options& o, View n, View v) { o.tokens = number(n, v, 1, 131'072); }},
    {"--model", "NAME", "a model of the models file (default gpt-oss-120b)",
     [](Options& o, View, View v) { o.model = v; }},
    {"--models", "FILE", "KV geometries (default examples/models.json)",
     [](Options& o, View, View v) { o.models = v; }},
    {"--tp", "N", "tensor-parallel ranks, of which one is moved, 1 to 256 (default 8)",
     [](Options& o, View n, View v) { o.tp = number(n, v, 1, 256); }},
    {"--chunk", "TOKENS", "of one step of prefill, 1 to 65536 (default 256)",
     [](Options& o, View n, View v) { o.chunk = number(n, v, 1, 65'536); }},
    {"--compute", "US", "time to compute one token, 0 to 10000 us (default 20)",
     [](Options& o, View n, View v) { o.compute_us = number(n, v, 0, 10'000); }},
    {"--concurrency", "N", "requests at once, 1 to 256 (default 6)",
     [](Options& o, View n, View v) { o.concurrency = number(n, v, 1, 256); }},
    {"--cancels", "N", "of 1000 requests, half by either side, 0 to 1000 (default 50)",
     [](Options& o, View n, View v) { o.cancels = number(n, v, 0, 1000); }},
    {"--stalls", "N", "of 1000 requests prefill does not finish, 0 to 1000 (default 5)",
     [](Options& o, View n, View v) { o.stalls = number(n, v, 0, 1000); }},
    {"--kills", "N",
     "kill -9 of the prefill process, which is then started anew, 0 to 100 (default 0)",
     [](Options& o, View n, View v) { o.kills = number(n, v, 0, 100); }},
    {"--deadline", "MS", "of each request in ms, 100 to 600000 (default 5000)",
     [](Options& o, View n, View v) { o.deadline_ms = number(n, v, 100, 600'000); }},
    {"--pipelined", "on|off", "send while later chunks are computed, or at the end (default on)",
     [](Options& o, View n, View v) {
       if (v != "on" && v != "off") refuse(n, v, "on and off");
       o.pipelined = v == "on";
     }},
    {"--memory", "host|gpu", "where KV lies (default host)",
     [](Options& o, View n, View v) {
       if (v != "host" && v != "gpu") refuse(n, v, "host and gpu");
       o.gpu = v == "gpu";
     }},
    {"--pool", "MIB", "KV pool of each process in MiB, 16 to 16384 (default 256)",
     [](Options& o, View n, View v) { o.pool_mib = number(n, v, 16, 16'384); }},
    {"--timeline", "FILE", "write a Chrome trace, for ui.perfetto.dev (default none)",
     [](Options& o, View, View v) { o.timeline = v; }},
    {"--seed", "N", "of workload, cancels and free lists (default 1)",
     [](Options& o, View n, View v) { o.seed = number(n, v, 0, ~std::uint64_t{0}); }},
    {"--help", "", "this text", [](Options& o, View, View) { o.help = true; }},
    {"--fault", "corrupt|leak|late", "",
     [](Options& o, View n, View v) {
       if (v != "corrupt" && v != "leak" && v != "late") refuse(n, v, "corrupt, leak and late");
       o.fault = v;
     }},
    {"--prefill", "FD", "",
     [](Options& o, View n, View v) {
       o.prefill = true;
       o.channel = static_cast<int>(number(n, v, 0, 1 << 20));
     }},
};

}  // namespace detail

/// Throws std::runtime_error naming value, range and option.
[[nodiscard]] inline Options parse(std::span<char const* const> arguments) {
  auto o = demo::parse_knobs<Options>(detail::knobs, arguments);
  if (o.requests == 0) o.requests = o.trace.empty() ? 200 : 1000;
  if (o.stalls + o.cancels > 1000)
    throw std::runtime_error("--stalls and --cancels are " + std::to_string(o.stalls + o.cancels) +
                             " of 1000 requests: lower one");
  return o;
}

inline void print_help() {
  std::printf(
      "mini_engine: a prefill and a decode executor in two processes, with block managers, prefix\n"
      "caches, chunked prefill, cancels, timeouts and kills. Every block is verified. Options:\n");
  demo::print_knobs<Options>(detail::knobs);
}

}  // namespace mini
