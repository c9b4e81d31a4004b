// The control plane per span: make_plan, cut, pack, unpack, on the block layouts of real models.
// Each time is per span of the list handed in; `wire_B` is packed bytes per span.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/descriptors.hpp>
#include <b10/core/plan.hpp>

namespace {

using namespace b10;

/// `blocks` blocks in each of `regions` equal regions (one per layer, or two: K and V apart).
struct Group {
  std::size_t regions;
  std::size_t blocks;
  std::uint64_t bytes;
};

struct Workload {
  char const* name;
  std::vector<Group> groups;
};

Workload const workloads[] = {
    {"B-small", {{36, 256, 4096}, {36, 4, 4096}}},
    {"B-mid", {{32, 256, 131'072}}},
    {"B-large", {{160, 4096, 8192}}},
    {"B-mla", {{61, 1024, 36'864}}},
    {"B-state", {{54, 1, 16'777'216}, {54, 1, 122'880}, {20, 256, 65'536}}},
    {"B-swa", {{20, 1024, 131'072}, {104, 32, 131'072}}},
    {"B-worst", {{64, 8192, 256}}},
};

enum class Order { layer_major, block_major };

constexpr std::uint64_t pool_base = 0x7f31'4000'0000;
constexpr std::uint64_t slice_bytes = 8u << 20;
constexpr std::size_t segment_bytes = 3900;
constexpr std::uint64_t spans_max = 1u << 21;

struct Lists {
  std::vector<LocalSpan> sources;
  std::vector<RemoteSpan> destinations;
};

/// Slots drawn at random, without repetition, from a pool four times as large as the request.
std::vector<std::uint64_t> random_slots(std::size_t blocks, std::mt19937_64& random) {
  std::vector<std::uint64_t> slots(4 * blocks);
  std::iota(slots.begin(), slots.end(), std::uint64_t{0});
  std::shuffle(slots.begin(), slots.end(), random);
  slots.resize(blocks);
  return slots;
}

Lists make_lists(Workload const& workload, Order order) {
  std::mt19937_64 random(7);
  Lists lists;
  std::uint64_t base = pool_base;
  for (Group const& g : workload.groups) {
    auto const from = random_slots(g.blocks, random);
    auto const to = random_slots(g.blocks, random);
    auto const region_bytes = 4 * g.blocks * g.bytes;
    auto const add = [&](std::size_t region, std::size_t block) {
      auto const at = base + region * region_bytes;
      lists.sources.push_back({reinterpret_cast<std::byte*>(at + from[block] * g.bytes), g.bytes});
      lists.destinations.push_back({at + to[block] * g.bytes, g.bytes});
    };
    if (order == Order::layer_major) {
      for (std::size_t r = 0; r < g.regions; ++r) {
        for (std::size_t b = 0; b < g.blocks; ++b) add(r, b);
      }
    } else {
      for (std::size_t b = 0; b < g.blocks; ++b) {
        for (std::size_t r = 0; r < g.regions; ++r) add(r, b);
      }
    }
    base += g.regions * region_bytes;
  }
  return lists;
}

using Segments = std::vector<std::vector<std::byte>>;

Segments pack(std::span<RemoteSpan const> spans) {
  Segments segments;
  std::byte buffer[segment_bytes];
  for (core::DescriptorPacker packer(spans); !packer.done();) {
    auto const n = packer.pack(buffer);
    segments.emplace_back(buffer, buffer + n);
  }
  return segments;
}

void report(benchmark::State& state, std::size_t spans) {
  auto const done = static_cast<double>(spans) * static_cast<double>(state.iterations());
  state.counters["per_span"] =
      benchmark::Counter(done, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["spans"] = static_cast<double>(spans);
}

void bench_plan(benchmark::State& state, Workload const& workload, Order order) {
  auto const lists = make_lists(workload, order);
  for (auto _ : state) {
    auto plan = core::make_plan(lists.sources, lists.destinations, spans_max);
    benchmark::DoNotOptimize(plan);
  }
  report(state, lists.sources.size());
}

void bench_cut(benchmark::State& state, Workload const& workload, Order order) {
  auto const lists = make_lists(workload, order);
  auto const plan = core::make_plan(lists.sources, lists.destinations, spans_max);
  for (auto _ : state) {
    auto chunks = core::cut(std::span<RemoteSpan const>{plan.destinations}, slice_bytes);
    benchmark::DoNotOptimize(chunks);
  }
  report(state, lists.sources.size());
}

void bench_pack(benchmark::State& state, Workload const& workload, Order order) {
  auto const lists = make_lists(workload, order);
  auto const plan = core::make_plan(lists.sources, lists.destinations, spans_max);
  std::size_t wire = 0;
  for (auto const& segment : pack(plan.destinations)) wire += segment.size();
  std::byte buffer[segment_bytes];
  for (auto _ : state) {
    for (core::DescriptorPacker packer(plan.destinations); !packer.done();) {
      benchmark::DoNotOptimize(packer.pack(buffer));
    }
  }
  report(state, lists.sources.size());
  state.counters["wire_B"] = static_cast<double>(wire) / static_cast<double>(lists.sources.size());
}

void bench_unpack(benchmark::State& state, Workload const& workload, Order order) {
  auto const lists = make_lists(workload, order);
  auto const plan = core::make_plan(lists.sources, lists.destinations, spans_max);
  auto const segments = pack(plan.destinations);
  for (auto _ : state) {
    core::DescriptorUnpacker unpacker(plan.destinations.size(), plan.bytes);
    for (auto const& segment : segments) benchmark::DoNotOptimize(unpacker.feed(segment));
    if (!unpacker.complete()) state.SkipWithError("did not unpack");
  }
  core::DescriptorUnpacker check(plan.destinations.size(), plan.bytes);
  for (auto const& segment : segments) static_cast<void>(check.feed(segment));
  if (check.spans() != plan.destinations) state.SkipWithError("unpacked other spans");
  report(state, lists.sources.size());
}

/// P6: everything a span costs, on both sides, in one go.
void bench_all(benchmark::State& state, Workload const& workload, Order order) {
  auto const lists = make_lists(workload, order);
  std::byte buffer[segment_bytes];
  for (auto _ : state) {
    auto const plan = core::make_plan(lists.sources, lists.destinations, spans_max);
    core::DescriptorUnpacker unpacker(plan.destinations.size(), plan.bytes);
    for (core::DescriptorPacker packer(plan.destinations); !packer.done();) {
      auto const n = packer.pack(buffer);
      benchmark::DoNotOptimize(unpacker.feed(std::span{buffer}.first(n)));
    }
    if (!unpacker.complete()) state.SkipWithError("did not unpack");
  }
  report(state, lists.sources.size());
}

/// Warm, as a process that moves KV all day is: freed memory stays with the process. Otherwise
/// the first touch of fresh pages is measured, which costs several times as much as the work.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

bool register_all() {
  keep_freed_memory();
  struct Part {
    char const* name;
    void (*run)(benchmark::State&, Workload const&, Order);
  };
  constexpr Part parts[] = {{"make_plan", bench_plan},
                            {"cut", bench_cut},
                            {"pack", bench_pack},
                            {"unpack", bench_unpack},
                            {"plan+pack+unpack", bench_all}};
  for (Workload const& w : workloads) {
    for (Order const order : {Order::layer_major, Order::block_major}) {
      for (Part const& part : parts) {
        auto const name = std::string{part.name} + "/" + w.name + "/" +
                          (order == Order::layer_major ? "layer_major" : "block_major");
        benchmark::RegisterBenchmark(name.c_str(), part.run, w, order);
      }
    }
  }
  return true;
}

[[maybe_unused]] bool const registered = register_all();

}  // namespace
