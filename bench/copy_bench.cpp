// What the host copy engine reaches, with digests and without.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include <b10/copy/memcpy.hpp>
#include <b10/digest.hpp>

namespace {

using namespace b10;

constexpr std::uint64_t pool_bytes = 256u << 20;  // far more than a cache holds
constexpr std::uint64_t slice_bytes = 1u << 20;

/// Slices of spans that lie scattered over a pool.
struct Slices {
  explicit Slices(std::uint64_t span_bytes)
      : pool(pool_bytes), per_slice(slice_bytes / span_bytes) {
    std::uint64_t const count = pool_bytes / span_bytes;
    for (std::uint64_t i = 0; i < count; ++i)
      spans.push_back({pool.data() + i * 7919 % count * span_bytes, span_bytes});
  }
  /// Another one at each call.
  SpanRun next() {
    at = at + 2 * per_slice <= spans.size() ? at + per_slice : 0;
    return {std::span<LocalSpan const>(spans).subspan(at, per_slice), 0, slice_bytes};
  }
  std::vector<std::byte> pool;
  std::vector<LocalSpan> spans{};
  std::size_t per_slice;
  std::size_t at = 0;
};

/// Range: span bytes. `copy(engine, run, staging, event)` moves one slice.
template <class Copy>
void slices(benchmark::State& state, Copy copy) {
  Slices slices(static_cast<std::uint64_t>(state.range(0)));
  std::vector<std::byte> staging(slice_bytes);
  copy::Memcpy const engine;
  copy::Memcpy::Event event;
  for (auto _ : state) {
    copy(engine, slices.next(), staging.data(), event);
    benchmark::DoNotOptimize(event);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(slice_bytes));
}
BENCHMARK_CAPTURE(slices, gather, [](auto& e, auto run, auto* staging, auto& event) {
  e.gather(run, staging, event);
}) -> Arg(2 << 10) -> Arg(64 << 10);
BENCHMARK_CAPTURE(slices, gather_digested, [](auto& e, auto run, auto* staging, auto& event) {
  e.gather_digested(run, staging, event);
}) -> Arg(2 << 10) -> Arg(64 << 10);
BENCHMARK_CAPTURE(slices, scatter, [](auto& e, auto run, auto* staging, auto& event) {
  e.scatter(staging, run, event);
}) -> Arg(2 << 10) -> Arg(64 << 10);
BENCHMARK_CAPTURE(slices, scatter_digested, [](auto& e, auto run, auto* staging, auto& event) {
  e.scatter_digested(staging, run, event);
}) -> Arg(2 << 10) -> Arg(64 << 10);

void digest_alone(benchmark::State& state) {
  std::vector<std::byte> const bytes(slice_bytes);
  for (auto _ : state) {
    Digest digest;
    digest.update(bytes.data(), bytes.size());
    benchmark::DoNotOptimize(digest.value());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(slice_bytes));
}
BENCHMARK(digest_alone);

}  // namespace
