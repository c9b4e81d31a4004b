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

template <bool digested>
void gather(benchmark::State& state) {
  Slices slices(static_cast<std::uint64_t>(state.range(0)));
  std::vector<std::byte> staging(slice_bytes);
  copy::Memcpy const engine;
  copy::Memcpy::Event event;
  for (auto _ : state) {
    if constexpr (digested)
      engine.gather_digested(slices.next(), staging.data(), event);
    else
      engine.gather(slices.next(), staging.data(), event);
    benchmark::DoNotOptimize(event);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(slice_bytes));
}
BENCHMARK(gather<false>)->Arg(2 << 10)->Arg(64 << 10);
BENCHMARK(gather<true>)->Arg(2 << 10)->Arg(64 << 10);

template <bool digested>
void scatter(benchmark::State& state) {
  Slices slices(static_cast<std::uint64_t>(state.range(0)));
  std::vector<std::byte> const staging(slice_bytes);
  copy::Memcpy const engine;
  copy::Memcpy::Event event;
  for (auto _ : state) {
    if constexpr (digested)
      engine.scatter_digested(staging.data(), slices.next(), event);
    else
      engine.scatter(staging.data(), slices.next(), event);
    benchmark::DoNotOptimize(event);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(slice_bytes));
}
BENCHMARK(scatter<false>)->Arg(2 << 10)->Arg(64 << 10);
BENCHMARK(scatter<true>)->Arg(2 << 10)->Arg(64 << 10);

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
