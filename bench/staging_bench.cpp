// Costs per unit of work of the pool, the tags, the registry and the memory map.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <b10/core/memory_map.hpp>
#include <b10/core/tag_registry.hpp>
#include <b10/staging/host.hpp>
#include <b10/tag/hashed.hpp>

namespace {

using namespace b10;

void per_item(benchmark::State& state, std::int64_t items) {
  state.SetItemsProcessed(state.iterations() * items);
  state.counters["per_item"] =
      benchmark::Counter(static_cast<double>(items), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

void staging_acquire_release(benchmark::State& state) {
  staging::Host<> pool({.buffer_bytes = 16u << 20, .buffers = 2});
  for (auto _ : state) {
    auto view = pool.try_acquire(Use::send);
    benchmark::DoNotOptimize(view->data());
    pool.release(std::move(*view));
  }
  per_item(state, 1);
}
BENCHMARK(staging_acquire_release);

/// One quarantined view out and a fresh one in; range: slice bytes.
void staging_drop_refill(benchmark::State& state) {
  auto const bytes = static_cast<std::uint64_t>(state.range(0));
  staging::Host<> pool({.buffer_bytes = bytes, .buffers = 2, .refill = staging::Refill::inline_});
  for (auto _ : state) {
    auto view = pool.try_acquire(Use::send);
    pool.drop(pool.quarantine(std::move(*view)));
    pool.maintain();
  }
  per_item(state, 1);
}
BENCHMARK(staging_drop_refill)->Arg(64 << 10)->Arg(1 << 20)->Arg(4 << 20);

void tag_derive(benchmark::State& state) {
  MessageIdentity m{PairDomain{7}, Generation{1}, TransferId{5}, ChunkIndex{0}, MessageKind::data};
  std::uint32_t chunk = 0;
  for (auto _ : state) {
    m.chunk = ChunkIndex{chunk++};
    benchmark::DoNotOptimize(tag::Hashed{}.tag(m));
  }
  per_item(state, 1);
}
BENCHMARK(tag_derive);

std::vector<Tag> random_tags(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tag> tags(n);
  for (auto& t : tags) t = Tag{random() | 1};
  return tags;
}

/// A transfer's tags in and out again; ranges: tags of the transfer, tags in quarantine meanwhile.
void registry_reserve_release(benchmark::State& state) {
  auto const batch = static_cast<std::size_t>(state.range(0));
  core::TagRegistry registry;
  auto const quarantined = random_tags(static_cast<std::size_t>(state.range(1)), 1);
  if (!registry.reserve(quarantined)) return state.SkipWithError("seed tags collide");
  registry.quarantine(quarantined);
  auto const tags = random_tags(batch * 64, 2);  // rotated, so that no slot stays in the cache
  std::size_t at = 0;
  for (auto _ : state) {
    auto const part = std::span(tags).subspan(at, batch);
    if (!registry.reserve(part)) return state.SkipWithError("tags collide");
    registry.release(part);
    at = (at + batch) % tags.size();
  }
  per_item(state, static_cast<std::int64_t>(batch));
}
BENCHMARK(registry_reserve_release)
    ->Args({10, 0})
    ->Args({83, 0})
    ->Args({83, 100'000})
    ->Args({83, 2'000'000})
    ->Args({4096, 2'000'000});

std::vector<LocalSpan> blocks(std::uint64_t count, std::uint64_t bytes) {
  std::vector<std::uint64_t> order(2 * count);
  for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  std::vector<LocalSpan> spans;
  for (std::uint64_t i = 0; i < count; ++i) {
    spans.push_back(
        {reinterpret_cast<std::byte*>((std::uint64_t{1} << 40) + order[i] * bytes), bytes});
  }
  return spans;
}

enum Order : std::int64_t { sorted, shuffled };

/// Spans of a WRITE checked against a grant of scattered blocks; ranges: spans, order.
void grant_check(benchmark::State& state) {
  auto const count = static_cast<std::uint64_t>(state.range(0));
  constexpr std::uint64_t bytes = 4096;
  core::MemoryMap map(core::Grants::strict);
  map.add({reinterpret_cast<std::byte*>(std::uint64_t{1} << 40), 2 * count * bytes});
  auto const spans = blocks(count, bytes);
  (void)map.grant(RequestId{1}, spans, {}, Instant{1});
  std::vector<RemoteSpan> asked;
  for (auto const& s : spans) {
    asked.push_back({reinterpret_cast<std::uintptr_t>(s.address), s.bytes, s.device});
  }
  auto const before = [](auto const& a, auto const& b) { return a.address < b.address; };
  if (state.range(1) == sorted) std::sort(asked.begin(), asked.end(), before);
  for (auto _ : state) {
    auto const answer = map.check(PeerId{1}, RequestId{1}, asked, Instant{0});
    if (answer.index() != 0) return state.SkipWithError("refused");
  }
  per_item(state, state.range(0));
}
BENCHMARK(grant_check)
    ->ArgNames({"spans", "order"})
    ->ArgsProduct({{64, 8192, 524'288}, {sorted, shuffled}});

/// Granting scattered blocks: check, sort and merge; range: spans.
void grant_give(benchmark::State& state) {
  auto const count = static_cast<std::uint64_t>(state.range(0));
  core::MemoryMap map(core::Grants::strict);
  map.add({reinterpret_cast<std::byte*>(std::uint64_t{1} << 40), 2 * count * 4096});
  auto const spans = blocks(count, 4096);
  for (auto _ : state) {
    auto const grant = map.grant(RequestId{1}, spans, {}, Instant{1});
    benchmark::DoNotOptimize(grant.get());
    map.forget(RequestId{1});
  }
  per_item(state, state.range(0));
}
BENCHMARK(grant_give)->Arg(64)->Arg(8192)->Arg(524'288);

void grant_begin_end_copy(benchmark::State& state) {
  core::GrantState grant;
  for (auto _ : state) {
    if (grant.begin_copy()) grant.end_copy();
  }
  per_item(state, 1);
}
BENCHMARK(grant_begin_end_copy);

}  // namespace

BENCHMARK_MAIN();
