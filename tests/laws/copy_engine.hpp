#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <b10/copy_engine.hpp>
#include <b10/digest.hpp>
#include <b10/outcome.hpp>

#include "support/catch.hpp"

namespace laws {

/// What the laws need to know of the memory that an engine copies; one for each model.
template <class F>
concept CopyFixture =
    requires(F& f, std::size_t bytes, b10::LocalSpan kv, std::byte* staging,
             std::vector<std::byte> const& content, typename F::Engine::Event& e) {
      requires b10::CopyEngine<typename F::Engine>;
      { f.engine() } -> std::same_as<typename F::Engine&>;
      { f.kv(bytes) } -> std::same_as<b10::LocalSpan>;   // KV memory, lives as long as the fixture
      { f.staging(bytes) } -> std::same_as<std::byte*>;  // staging memory, likewise
      { f.write(kv, content) };                          // fills KV memory
      { f.read(kv) } -> std::same_as<std::vector<std::byte>>;
      { f.finish(e) };                                      // makes the copy end
      { f.unreachable() } -> std::same_as<b10::LocalSpan>;  // a span this engine must refuse
    };

namespace detail {

inline std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& b : out) b = static_cast<std::byte>(random());
  return out;
}

/// Spans scattered over a pool, out of order, with gaps, of uneven sizes; some empty.
inline std::vector<b10::LocalSpan> scattered(b10::LocalSpan pool) {
  std::vector<b10::LocalSpan> spans;
  for (std::size_t const at : {900u, 0u, 401u, 128u, 700u}) {
    auto const bytes = at == 401 ? 0u : 64u + at % 7;
    spans.push_back({pool.address + at, bytes, pool.device});
  }
  return spans;
}

inline std::vector<std::byte> join(b10::SpanRun run, b10::LocalSpan pool,
                                   std::vector<std::byte> const& content) {
  std::vector<std::byte> out;
  run.for_each([&](std::byte* address, std::uint64_t bytes, b10::Device) {
    auto const from = content.begin() + (address - pool.address);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(bytes));
  });
  return out;
}

/// What cannot start says so and has touched nothing, not even before the span that is at fault.
template <class Fixture>
void refuses_what_it_cannot_reach(Fixture& f, b10::LocalSpan kv, std::byte* staging,
                                  std::vector<std::byte> const& canary) {
  using namespace b10;
  std::vector<LocalSpan> const bad{{kv.address, 16, kv.device}, f.unreachable()};
  SpanRun const run{bad, 0, bad[0].bytes + bad[1].bytes};
  typename std::remove_cvref_t<Fixture>::Engine::Event never{};
  try {
    f.engine().scatter(staging, run, never);
    FAIL("a span out of reach was accepted");
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::copy_failed);
  }
  CHECK(f.read(kv) == canary);
  std::copy(canary.begin(), canary.end(), staging);
  CHECK_THROWS_AS(f.engine().gather(run, staging, never), Error);
  CHECK(std::vector<std::byte>(staging, staging + canary.size()) == canary);
}

}  // namespace detail

/// Every model of b10::DigestingCopyEngine passes these: whatever the alignment and the pieces, the
/// digest is that of the contiguous side, and the bytes are copied as without it.
template <CopyFixture Fixture>
  requires b10::DigestingCopyEngine<typename std::remove_cvref_t<Fixture>::Engine>
void digesting_copy_engine(Fixture&& f) {
  using namespace b10;
  using Engine = typename std::remove_cvref_t<Fixture>::Engine;
  auto& engine = f.engine();
  constexpr std::size_t pool_bytes = 1024;
  auto const kv = f.kv(pool_bytes);
  auto* const staging = f.staging(pool_bytes);
  auto const spans = detail::scattered(kv);
  std::uint64_t total = 0;
  for (auto const& s : spans) total += s.bytes;
  for (auto const& [skip, cut] : {std::pair{0u, 0u}, std::pair{5u, 0u}, std::pair{3u, 250u}}) {
    CAPTURE(skip, cut);
    SpanRun const run{spans, skip, total - skip - cut};
    auto const content = detail::noise(pool_bytes, skip + cut);
    f.write(kv, content);
    typename Engine::Event gathered{};
    engine.gather_digested(run, staging, gathered);
    f.finish(gathered);
    REQUIRE(engine.query(gathered) == CopyState::done);
    auto const expected = detail::join(run, kv, content);
    CHECK(std::vector<std::byte>(staging, staging + run.bytes) == expected);
    Digest digest;
    digest.update(expected.data(), expected.size());
    CHECK(engine.digest(gathered) == digest.value());

    staging[run.bytes / 2] ^= std::byte{1};
    digest = {};
    digest.update(staging, run.bytes);
    typename Engine::Event scattered{};
    engine.scatter_digested(staging, run, scattered);
    f.finish(scattered);
    REQUIRE(engine.query(scattered) == CopyState::done);
    CHECK(engine.digest(scattered) == digest.value());
    CHECK(engine.digest(scattered) != engine.digest(gathered));
    CHECK(detail::join(run, kv, f.read(kv)) ==
          std::vector<std::byte>(staging, staging + run.bytes));
  }
}

/// Every model of b10::CopyEngine passes these.
template <CopyFixture Fixture>
void copy_engine(Fixture&& f) {
  using namespace b10;
  using Engine = typename std::remove_cvref_t<Fixture>::Engine;
  auto& engine = f.engine();
  constexpr std::size_t pool_bytes = 1024;
  auto const kv = f.kv(pool_bytes);
  auto* const staging = f.staging(pool_bytes);
  auto const canary = std::vector<std::byte>(pool_bytes, std::byte{0xa5});
  auto const spans = detail::scattered(kv);
  std::uint64_t total = 0;
  for (auto const& s : spans) total += s.bytes;

  CHECK(engine.source_ready(typename Engine::SourceReady{}) == CopyState::done);

  for (auto const& [skip, cut] : {std::pair{0u, 0u}, std::pair{5u, 0u}, std::pair{5u, 9u}}) {
    CAPTURE(skip, cut);
    SpanRun const run{spans, skip, total - skip - cut};
    auto const content = detail::noise(pool_bytes, skip + cut);

    // A gather joins the pieces in order and touches nothing else.
    f.write(kv, content);
    std::copy(canary.begin(), canary.end(), staging);
    typename Engine::Event gathered{};
    engine.gather(run, staging, gathered);
    if constexpr (Engine::ends_inline) CHECK(engine.query(gathered) == CopyState::done);
    f.finish(gathered);
    REQUIRE(engine.query(gathered) == CopyState::done);
    auto expected = detail::join(run, kv, content);
    REQUIRE(expected.size() == run.bytes);
    expected.insert(expected.end(), pool_bytes - run.bytes, std::byte{0xa5});
    CHECK(std::vector<std::byte>(staging, staging + pool_bytes) == expected);
    CHECK(f.read(kv) == content);

    // A scatter is its inverse and touches nothing else.
    f.write(kv, canary);
    typename Engine::Event scattered{};
    engine.scatter(staging, run, scattered);
    if constexpr (Engine::ends_inline) CHECK(engine.query(scattered) == CopyState::done);
    f.finish(scattered);
    REQUIRE(engine.query(scattered) == CopyState::done);
    auto landed = canary;
    run.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
      auto const at = address - kv.address;
      std::copy_n(content.begin() + at, bytes, landed.begin() + at);
    });
    CHECK(f.read(kv) == landed);
  }

  // An empty run is done and touches nothing.
  typename Engine::Event empty{};
  f.write(kv, canary);
  engine.scatter(staging, SpanRun{}, empty);
  f.finish(empty);
  CHECK(engine.query(empty) == CopyState::done);
  CHECK(f.read(kv) == canary);
  detail::refuses_what_it_cannot_reach(f, kv, staging, canary);
}

}  // namespace laws
