// The command line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <b10/transport/ucx/options.hpp>

#include "common/arguments.hpp"
#include "common/geometry.hpp"

namespace demo {

inline constexpr std::uint64_t slice_min = 64 * 1024;
inline constexpr std::uint64_t slice_max = std::uint64_t{8} << 20;
inline constexpr std::uint64_t slice_host = 256 * 1024;  // the defaults
inline constexpr std::uint64_t slice_gpu = std::uint64_t{4} << 20;

enum class Memory { automatic, host, gpu };
enum class Staging { pinned, shared };
enum class Engine { staged, direct, batch };

[[nodiscard]] constexpr std::string_view to_string(Memory m) {
  return m == Memory::host ? "host" : m == Memory::gpu ? "gpu" : "auto";
}

struct Options {
  std::string models = B10_DEMO_MODELS;
  std::string model{};
  std::uint64_t tp = 0;
  KvLayout kv = KvLayout::together;
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;
  std::uint64_t concurrency = 0;
  std::uint64_t deadline_ms = 10'000;
  std::uint64_t slice = 0;  ///< 0: not said yet, see choose_places()
  Memory memory = Memory::automatic;
  Staging staging = Staging::pinned;
  std::optional<Engine> engine{};
  b10::transport::ucx::Wire wire = b10::transport::ucx::Wire::tcp;
  std::uint64_t pool_mib = 0;
  std::uint64_t seed = 1;
  std::string trace{};
  bool stress = false;
  std::optional<std::uint64_t> kill_peer_at{};
  bool explain = false;
  bool help = false;

  std::string corrupt{};  ///< for tests: what to damage before the bytes are verified
  bool prefill = false;   ///< set by the decode process when it starts the other one
  int plane = -1;
};

namespace detail {

using Knob = BasicKnob<Options>;
using View = std::string_view;
inline constexpr Knob knobs[] = {
    {"--model", "NAME", "a model of the models file (default Llama-3.1-8B)",
     [](Options& o, View, View v) { o.model = v; }},
    {"--models", "FILE", "KV geometries (default examples/models.json)",
     [](Options& o, View, View v) { o.models = v; }},
    {"--tp", "N", "tensor-parallel ranks, of which one is moved, 1 to 256 (default 1)",
     [](Options& o, View n, View v) { o.tp = number(n, v, 1, 256); }},
    {"--kv", "together|apart",
     "K and V of a block side by side, or in two regions (default together)",
     [](Options& o, View n, View v) {
       if (v != "together" && v != "apart") refuse(n, v, "together and apart");
       o.kv = v == "apart" ? KvLayout::apart : KvLayout::together;
     }},
    {"--requests", "N", "how many, 1 to 1000000 (default 8)",
     [](Options& o, View n, View v) { o.requests = number(n, v, 1, 1'000'000); }},
    {"--tokens", "N",
     "prompt length, with --trace its upper limit, 1 to 1048576 (default 1024, with --trace 4096)",
     [](Options& o, View n, View v) { o.tokens = number(n, v, 1, 1 << 20); }},
    {"--concurrency", "N", "requests on their way at once, 1 to 1024; 2",
     [](Options& o, View n, View v) { o.concurrency = number(n, v, 1, 1024); }},
    {"--deadline", "MS", "of each request in ms, 1 to 600000 (default 10000)",
     [](Options& o, View n, View v) { o.deadline_ms = number(n, v, 1, 600'000); }},
    {"--memory", "auto|host|gpu", "where KV lies; auto: on GPUs if there are any (default auto)",
     [](Options& o, View n, View v) {
       if (v != "auto" && v != "host" && v != "gpu") refuse(n, v, "auto, host and gpu");
       o.memory = v == "host" ? Memory::host : v == "gpu" ? Memory::gpu : Memory::automatic;
     }},
    {"--staging", "pinned|shared",
     "where bytes wait: in memory of each process and UCX moves them, or in memory that both map "
     "(default pinned)",
     [](Options& o, View n, View v) {
       if (v != "pinned" && v != "shared") refuse(n, v, "pinned and shared");
       o.staging = v == "shared" ? Staging::shared : Staging::pinned;
     }},
    {"--engine", "staged|direct|batch", "what copies to and from a GPU (default staged)",
     [](Options& o, View n, View v) {
       if (v != "staged" && v != "direct" && v != "batch") refuse(n, v, "staged, direct and batch");
       o.engine = v == "staged" ? Engine::staged : v == "direct" ? Engine::direct : Engine::batch;
     }},
    {"--slice", "BYTES", "bytes of one DATA chunk, 64k to 8m (default 256k, from GPUs 4m)",
     [](Options& o, View n, View v) {
       auto const bytes = number(v);
       if (!bytes || *bytes < slice_min || *bytes > slice_max) refuse(n, v, "64k to 8m");
       o.slice = *bytes;
     }},
    {"--wire", "tcp|shared_memory", "what UCX moves bytes with (default tcp)",
     [](Options& o, View n, View v) {
       using b10::transport::ucx::Wire;
       if (v != "tcp" && v != "shared_memory") refuse(n, v, "tcp and shared_memory");
       o.wire = v == "tcp" ? Wire::tcp : Wire::shared_memory;
     }},
    {"--pool", "MIB", "largest KV pool of a process in MiB, 16 to 16384 (default 4096)",
     [](Options& o, View n, View v) { o.pool_mib = number(n, v, 16, 16'384); }},
    {"--seed", "N", "of the order of free blocks (default 1)",
     [](Options& o, View n, View v) { o.seed = number(n, v, 0, ~std::uint64_t{0}); }},
    {"--trace", "FILE",
     "replay a request trace: its prompt lengths and its prefix reuse (default none)",
     [](Options& o, View, View v) { o.trace = v; }},
    {"--kill-peer-at", "CHUNK",
     "kill -9 the prefill process when that chunk of a request arrives, 0 to 65535 (default never)",
     [](Options& o, View n, View v) { o.kill_peer_at = number(n, v, 0, 65'535); }},
    {"--stress", "",
     "10000 small requests of gpt-oss-120b TP8, then 64 at once: memory must stay flat",
     [](Options& o, View, View) { o.stress = true; }},
    {"--explain", "", "what is composed, and what UCX really uses, at the end",
     [](Options& o, View, View) { o.explain = true; }},
    {"--help", "", "this text", [](Options& o, View, View) { o.help = true; }},
    {"--corrupt", "block|canary|margin", "",
     [](Options& o, View n, View v) {
       if (v != "block" && v != "canary" && v != "margin") refuse(n, v, "block, canary and margin");
       o.corrupt = v;
     }},
    {"--prefill", "FD", "",
     [](Options& o, View n, View v) {
       o.prefill = true;
       o.plane = static_cast<int>(number(n, v, 0, 1 << 20));
     }},
};

}  // namespace detail

/// `--name value` or `--name=value`. Throws std::runtime_error naming value, range and option.
inline Options parse(std::span<char const* const> arguments) {
  auto o = parse_knobs<Options>(detail::knobs, arguments);
  auto const otherwise = [](auto& value, auto fallback) {
    if (value == std::remove_reference_t<decltype(value)>{}) value = fallback;
  };
  otherwise(o.model, o.stress ? "gpt-oss-120b" : "Llama-3.1-8B");
  otherwise(o.tp, o.stress ? 8u : 1u);
  otherwise(o.requests, o.stress ? 10'000u : 8u);
  otherwise(o.tokens, o.stress ? 32u : o.trace.empty() ? 1024u : 4096u);
  otherwise(o.concurrency, o.kill_peer_at ? 1u : o.stress ? 8u : 2u);
  otherwise(o.pool_mib, o.stress ? 512u : 4096u);
  return o;
}

inline void print_help() {
  std::printf(
      "prefill_decode: moves the KV cache of many requests between two processes and\n"
      "verifies every byte. Options, with what they take and their default:\n");
  print_knobs<Options>(detail::knobs);
}

}  // namespace demo
