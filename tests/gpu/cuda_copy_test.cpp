// The CUDA copy engines by themselves: the laws of the axis, and what only a GPU can get wrong.
#include <b10/copy/copy_engine_batch.hpp>
#include <b10/copy/direct.hpp>
#include <b10/copy/staged.hpp>
#include <b10/digest.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "laws/copy_engine.hpp"
#include "support/catch.hpp"
#include "support/cuda_memory.hpp"
#include "support/gpu.hpp"

using namespace b10;
using support::cuda;
using support::CudaMemory;

namespace {

constexpr std::uint64_t slice = 1 << 20;

/// Pinned memory as a staging policy would have it.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes) {
    void* p = nullptr;
    cuda(cudaHostAlloc(&p, bytes, cudaHostAllocPortable));
    data_ = static_cast<std::byte*>(p);
  }
  Pinned(Pinned const&) = delete;
  Pinned& operator=(Pinned const&) = delete;
  ~Pinned() { (void)cudaFreeHost(data_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

template <class E>
CopyState wait_for(E& engine, typename E::Event& event) {
  for (;;) {
    auto const state = engine.query(event);
    if (state != CopyState::pending) return state;
  }
}

template <class E>
class CudaFixture {
 public:
  using Engine = E;
  E& engine() { return engine_; }
  LocalSpan kv(std::size_t bytes) { return kv_.emplace_back(bytes).span(); }
  std::byte* staging(std::size_t bytes) { return staging_.emplace_back(bytes).data(); }
  void write(LocalSpan, std::vector<std::byte> const& content) { kv_.front().write(content); }
  std::vector<std::byte> read(LocalSpan) { return kv_.front().read(); }
  void finish(typename E::Event& event) {
    auto state = CopyState::pending;
    while ((state = engine_.query(event)) == CopyState::pending) {
    }
  }
  LocalSpan unreachable() { return {host_, sizeof host_, Device{0}}; }

 private:
  E engine_{{}, slice};
  std::deque<CudaMemory> kv_{};
  std::deque<Pinned> staging_{};
  std::byte host_[16]{};
};

template <class E>
std::string refusal(E& engine, LocalSpan span) {
  Pinned staging(span.bytes);
  typename E::Event event;
  std::vector<LocalSpan> const spans{span};
  try {
    engine.gather({spans, 0, span.bytes}, staging.data(), event);
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::copy_failed);
    return e.what();
  }
  FAIL("must throw");
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("a CUDA engine obeys the copy engine laws", "[gpu]", copy::Staged, copy::Direct,
                   copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  laws::copy_engine(CudaFixture<TestType>());
}

TEST_CASE("Staged digests what it copies, as the host would", "[gpu]") {
  if (support::no_gpu()) return;
  laws::digesting_copy_engine(CudaFixture<copy::Staged>());

  // Pieces that go by DMA without digests, memories that meet within a slice, on a word and off it.
  constexpr std::size_t pool_bytes = 16u << 20;
  constexpr std::uint64_t big_slice = 8u << 20;
  copy::Staged engine({}, big_slice);
  CudaMemory kv(pool_bytes);
  auto const content = laws::detail::noise(pool_bytes, 11);
  kv.write(content);
  std::vector<std::byte> host(content);
  Pinned staging(big_slice);
  auto const device = [&](std::size_t at, std::uint64_t bytes) {
    return LocalSpan{kv.data() + at, bytes, Device{0}};
  };
  auto const local = [&](std::size_t at, std::uint64_t bytes) {
    return LocalSpan{host.data() + at, bytes, Device::host};
  };
  std::vector<std::vector<LocalSpan>> const lists{
      {device(3, big_slice - 13)},
      {device(0, 4u << 20), device(8u << 20, 4u << 20)},
      {device(64, 4096), local(64, 4096)},
      {local(64, 4095), device(9999, 70'000)},
      {device(8, 80), local(160, 16), device(4096, 1u << 20)},
      {device(5, 1)},
  };
  for (auto const& spans : lists) {
    std::uint64_t bytes = 0;
    for (auto const& s : spans) bytes += s.bytes;
    CAPTURE(spans.size(), bytes);
    SpanRun const run{spans, 0, bytes};
    copy::Staged::Event event;
    engine.gather_digested(run, staging.data(), event);
    REQUIRE(wait_for(engine, event) == CopyState::done);
    Digest digest;
    digest.update(staging.data(), bytes);
    CHECK(engine.digest(event) == digest.value());
    engine.scatter_digested(staging.data(), run, event);
    REQUIRE(wait_for(engine, event) == CopyState::done);
    CHECK(engine.digest(event) == digest.value());
    CHECK(kv.read() == content);
  }
}

TEMPLATE_TEST_CASE("a CUDA engine copies blocks of real sizes exactly, many slices under way",
                   "[gpu]", copy::Staged, copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  auto const block = GENERATE(as<std::size_t>{}, 256, 4096, 8192, 36'864, 131'072, 1 << 20);
  constexpr std::size_t pool_bytes = 64u << 20;
  TestType engine({}, slice);
  CudaMemory from(pool_bytes);
  CudaMemory to(pool_bytes);
  auto const content = laws::detail::noise(pool_bytes, 5);
  from.write(content);
  std::vector<std::byte> expected(pool_bytes, std::byte{0xa5});
  to.write(expected);

  // Every second block of the pool, in an order that is not that of memory.
  auto const blocks = pool_bytes / block;
  auto const per_slice = slice / block;
  std::vector<LocalSpan> sources;
  std::vector<LocalSpan> destinations;
  for (std::size_t i = 0; i + 1 < blocks; i += 2) {
    auto const at = (i * 7919 % blocks) * block;
    auto const there = ((i * 104'729 + 1) % blocks) * block;
    sources.push_back({from.data() + at, block, Device{0}});
    destinations.push_back({to.data() + there, block, Device{0}});
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(at), block,
                expected.begin() + static_cast<std::ptrdiff_t>(there));
  }
  constexpr std::size_t depth = 4;
  Pinned staging(depth * slice);
  typename TestType::Event events[depth];
  for (std::size_t first = 0, n = 0; first < sources.size(); first += per_slice, ++n) {
    auto& event = events[n % depth];
    auto* const view = staging.data() + n % depth * slice;
    REQUIRE(wait_for(engine, event) == CopyState::done);
    auto const count = std::min(per_slice, sources.size() - first);
    auto const run = [&](auto const& all) {
      return SpanRun{std::span(all).subspan(first, count), 0, count * block};
    };
    typename TestType::Event gathered;
    engine.gather(run(sources), view, gathered);
    REQUIRE(wait_for(engine, gathered) == CopyState::done);
    engine.scatter(view, run(destinations), event);
  }
  for (auto& event : events) REQUIRE(wait_for(engine, event) == CopyState::done);
  CHECK(to.read() == expected);
}

TEMPLATE_TEST_CASE("a CUDA engine copies host and device spans of one chunk", "[gpu]", copy::Staged,
                   copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  TestType engine({}, slice);
  CudaMemory kv(4096);
  auto const content = laws::detail::noise(4096, 9);
  kv.write(content);
  auto host = laws::detail::noise(512, 10);
  std::vector<LocalSpan> const spans{{kv.data() + 100, 300, Device{0}},
                                     {host.data(), 200, Device::host},
                                     {kv.data() + 1000, 77, Device{0}},
                                     {kv.data() + 2000, 78, Device{0}},
                                     {host.data() + 300, 100, Device::host}};
  Pinned staging(4096);
  typename TestType::Event event;
  SpanRun const run{spans, 10, 740};
  engine.gather(run, staging.data(), event);
  REQUIRE(wait_for(engine, event) == CopyState::done);
  std::vector<std::byte> expected;
  run.for_each([&](std::byte* p, std::uint64_t n, Device d) {
    auto const& side = d == Device::host ? host : content;
    auto const at = d == Device::host ? p - host.data() : p - kv.data();
    expected.insert(expected.end(), side.begin() + at,
                    side.begin() + at + static_cast<std::ptrdiff_t>(n));
  });
  REQUIRE(expected.size() == 740);
  CHECK(std::equal(expected.begin(), expected.end(), staging.data()));

  std::fill(host.begin(), host.end(), std::byte{0});
  kv.write(std::vector<std::byte>(4096));
  engine.scatter(staging.data(), run, event);
  REQUIRE(wait_for(engine, event) == CopyState::done);
  auto const landed = kv.read();
  std::size_t at = 0;
  run.for_each([&](std::byte* p, std::uint64_t n, Device d) {
    auto const* side = d == Device::host ? p : landed.data() + (p - kv.data());
    CHECK(std::equal(side, side + n, expected.begin() + static_cast<std::ptrdiff_t>(at)));
    at += n;
  });
}

TEMPLATE_TEST_CASE("a CUDA engine is full when its slots are, and has room when a copy has ended",
                   "[gpu]", copy::Staged, copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  copy::cuda::EngineOptions options;
  options.slots = 2;
  TestType engine(options, slice);
  CudaMemory kv(1 << 16);
  Pinned staging(1 << 16);
  std::vector<LocalSpan> const spans{{kv.data(), 64, Device{0}}, {kv.data() + 128, 64, Device{0}}};
  typename TestType::Event first;
  typename TestType::Event second;
  CHECK(engine.has_room());
  engine.gather({spans, 0, 128}, staging.data(), first);
  CHECK(engine.has_room());
  engine.gather({spans, 0, 128}, staging.data() + 256, second);
  CHECK_FALSE(engine.has_room());
  REQUIRE(wait_for(engine, first) == CopyState::done);
  CHECK(engine.has_room());
  CHECK(engine.query(first) == CopyState::done);  // asking again changes nothing
  REQUIRE(wait_for(engine, second) == CopyState::done);
}

TEMPLATE_TEST_CASE("a copy is pending while its stream is held, and touches nothing", "[gpu]",
                   copy::Staged, copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  TestType engine({}, slice);
  auto const* const streams = engine.device(0);
  REQUIRE(streams);
  CudaMemory kv(4096);
  std::vector<std::byte> const canary(4096, std::byte{0xa5});
  kv.write(canary);
  Pinned staging(4096);
  std::memset(staging.data(), 7, 4096);
  std::vector<LocalSpan> const spans{{kv.data(), 64, Device{0}}, {kv.data() + 128, 64, Device{0}}};
  typename TestType::Event event;
  {
    support::Gate gate;
    for (auto const* s :
         {&streams->scatter_kernels, &streams->scatter_dma[0], &streams->scatter_dma[1]})
      gate.close(s->get());
    engine.scatter(staging.data(), {spans, 0, 128}, event);
    for (int i = 0; i < 1000; ++i) REQUIRE(engine.query(event) == CopyState::pending);
    CHECK(kv.read() == canary);
    gate.open();
  }
  REQUIRE(wait_for(engine, event) == CopyState::done);
  auto const landed = kv.read();
  CHECK(std::count(landed.begin(), landed.end(), std::byte{7}) == 128);
}

TEMPLATE_TEST_CASE("a wrong address is refused with its span, and the next copy is exact", "[gpu]",
                   copy::Staged, copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  TestType engine({}, slice);
  CudaMemory kv(1 << 20);
  auto* const unknown = reinterpret_cast<std::byte*>(std::uintptr_t{0x4242'0000});
  CHECK_THAT(refusal(engine, {unknown, 64, Device{0}}),
             Catch::Contains("no memory that CUDA knows"));
  std::vector<std::byte> host(64);
  CHECK_THAT(refusal(engine, {host.data(), 64, Device{0}}),
             Catch::Contains("said to be on device 0"));
  // CUDA rounds allocations up to 2 MiB at most.
  CHECK_THAT(refusal(engine, {kv.data(), 64u << 20, Device{0}}), Catch::Contains("but byte "));
  CHECK_THAT(refusal(engine, {kv.data(), 64, Device{99}}),
             Catch::Contains("device 99") && Catch::Contains("Options::devices"));
  laws::copy_engine(CudaFixture<TestType>());
  CHECK(engine.has_room());
}

TEMPLATE_TEST_CASE("more spans than a table holds are refused with the knob", "[gpu]", copy::Staged,
                   copy::Direct, copy::CopyEngineBatch) {
  if (support::no_gpu()) return;
  copy::cuda::EngineOptions options;
  options.spans_max = 8;
  TestType engine(options, slice);
  CudaMemory kv(4096);
  Pinned staging(4096);
  std::vector<LocalSpan> spans;
  for (std::size_t i = 0; i < 9; ++i) spans.push_back({kv.data() + i * 128, 64, Device{0}});
  typename TestType::Event event;
  CHECK_THROWS_WITH(engine.gather({spans, 0, 9 * 64}, staging.data(), event),
                    Catch::Contains("more than 8 spans") && Catch::Contains("Options::spans_max"));
  engine.gather({spans, 0, 8 * 64}, staging.data(), event);
  CHECK(wait_for(engine, event) == CopyState::done);
}

TEST_CASE("options that cannot work are refused with value, limit and knob", "[gpu]") {
  auto const refused = [](auto adjust) -> std::string {
    copy::cuda::EngineOptions options;
    adjust(options);
    try {
      copy::Staged engine(options, slice);
    } catch (Error const& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK_THAT(refused([](auto& o) { o.spans_max = 0; }), Catch::Contains("Options::spans_max is 0"));
  if (support::no_gpu()) {
    CHECK_THAT(refused([](auto&) {}), Catch::Contains("finds no device"));
    return;
  }
  CHECK_THAT(refused([](auto& o) { o.devices = {99}; }), Catch::Contains("device 99"));
  CHECK_THAT(refused([](auto& o) { o.devices = {0, 0}; }), Catch::Contains("twice"));
  CHECK_THAT(refused([](auto& o) { o.slots = 1u << 20; }),
             Catch::Contains("scratch") && Catch::Contains("Options::slots is 1048576"));
  copy::Staged engine({}, slice);  // running out of memory left nothing behind that hurts
  CHECK(engine.has_room());
}

TEST_CASE("a source-ready event is pending until its stream has come to it", "[gpu]") {
  if (support::no_gpu()) return;
  copy::Staged engine({}, slice);
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  {
    support::Gate gate;
    gate.close(stream);
    cuda(cudaEventRecord(event, stream));
    CHECK(engine.source_ready(event) == CopyState::pending);
    gate.open();
  }
  cuda(cudaEventSynchronize(event));
  CHECK(engine.source_ready(event) == CopyState::done);
  (void)cudaEventDestroy(event);
  (void)cudaStreamDestroy(stream);
}
