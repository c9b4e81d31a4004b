// WRITE from GPU memory to GPU memory in one process, over Loopback, with streams that the test
// holds up: that B10 waits for events is proven here, not assumed.
#include <b10/transceiver.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "laws/copy_engine.hpp"
#include "support/catch.hpp"
#include "support/cuda_memory.hpp"
#include "support/forger.hpp"
#include "support/gpu.hpp"

using namespace b10;
using support::cuda;
using support::CudaMemory;
using support::Gate;

namespace {

constexpr std::uint64_t block = 8192;
constexpr std::size_t blocks_total = 512;

/// copy::Staged whose next scatter or gather starts behind a closed gate.
class Gated : public copy::Staged {
 public:
  static constexpr std::string_view name = "copy::Staged (gated)";
  struct Options : copy::Staged::Options {
    Gate* gather_gate = nullptr;
    Gate* scatter_gate = nullptr;
  };
  Gated(Options const& o, std::uint64_t slice) : copy::Staged(o, slice), options_(o) {}

  void gather(SpanRun from, std::byte* to, Event& event) {
    close(options_.gather_gate, &copy::cuda::DeviceSlots::gather_kernels);
    copy::Staged::gather(from, to, event);
  }
  void scatter(std::byte const* from, SpanRun to, Event& event) {
    close(options_.scatter_gate, &copy::cuda::DeviceSlots::scatter_kernels);
    copy::Staged::scatter(from, to, event);
  }

 private:
  void close(Gate*& gate, copy::cuda::Stream copy::cuda::DeviceSlots::*stream) {
    if (gate) gate->close((device(0)->*stream).get());
    gate = nullptr;  // the first copy only
  }
  Options options_;
};

using Node = Transceiver<staging::PinnedHost<slicing::Pipelined<64 << 10, 3>, Gated>, tag::Hashed,
                         completion::CopyEvent, quarantine::TtlMs<300>, transport::Loopback>;
using Network = transport::Loopback::Network;

struct Gates {
  Gate gather{};
  Gate scatter{};
};

template <class Node>
struct PairOf {
  explicit PairOf(Gate* gather = nullptr, Gate* scatter = nullptr) {
    from.write(content);
    to.write(canary);
    a = std::make_unique<Node>(config("a", gather, nullptr));
    b = std::make_unique<Node>(config("b", nullptr, scatter));
    b->register_memory(to.span());
    auto connecting = a->begin_connect("b", seconds(10));
    turn([&] { return connecting.done(); });
    REQUIRE(connecting.peer());
    peer = *connecting.peer();
  }

  typename Node::Config config(char const* name, Gate* gather, Gate* scatter) {
    typename Node::Config c;
    c.name = name;
    c.staging.buffer_bytes = 1 << 20;
    c.staging.buffers = 2;
    c.staging.refill = staging::Refill::inline_;
    if constexpr (requires { c.staging.copies.gather_gate; }) {
      c.staging.copies.gather_gate = gather;
      c.staging.copies.scatter_gate = scatter;
    }
    c.transport.network = network;
    c.transport.address = name;
    c.progress = Progress::manual;
    return c;
  }

  /// Turns both nodes until `done`, or as often as a test may wait for what must happen.
  template <class Done>
  bool turn(Done done, int turns = 20'000'000) {
    for (int i = 0; i < turns; ++i) {
      a->progress();
      b->progress();
      if (done()) return true;
    }
    return false;
  }
  /// As many turns as show that something does not happen.
  void turn_a_while() {
    turn([] { return false; }, 20'000);
  }

  [[nodiscard]] static std::size_t source_of(std::size_t i) { return (i * 197 + 3) % blocks_total; }
  [[nodiscard]] static std::size_t destination_of(std::size_t i) {
    return (i * 331 + 7) % blocks_total;
  }
  /// `count` blocks, scattered on both sides.
  [[nodiscard]] std::vector<LocalSpan> spans(CudaMemory const& memory,
                                             std::size_t (*at)(std::size_t),
                                             std::size_t count) const {
    std::vector<LocalSpan> out;
    for (std::size_t i = 0; i < count; ++i)
      out.push_back({memory.data() + at(i) * block, block, Device{0}});
    return out;
  }
  Grant grant(std::uint64_t request, std::size_t count) {
    return b->grant(RequestId{request}, spans(to, destination_of, count), seconds(60));
  }
  Transfer write(std::uint64_t request, std::size_t count, Duration deadline = seconds(30),
                 copy::cuda::SourceReady ready = {}) {
    auto const sources = spans(from, source_of, count);
    std::vector<RemoteSpan> destinations;
    for (auto const& s : spans(to, destination_of, count)) destinations.push_back(as_remote(s));
    return a->write(peer, {.request = RequestId{request},
                           .sources = sources,
                           .destinations = destinations,
                           .ready = std::move(ready),
                           .deadline = deadline});
  }
  /// The whole pool: the first `count` blocks hold what the sources hold, the rest the canary.
  [[nodiscard]] bool exactly(std::size_t count) const {
    auto expected = canary;
    auto const source = from.read();
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(source_of(i) * block), block,
                  expected.begin() + static_cast<std::ptrdiff_t>(destination_of(i) * block));
    return to.read() == expected;
  }
  /// One more transfer on the same nodes, streams and connection is exact.
  void require_works(std::uint64_t request, std::size_t count) {
    auto const g = grant(request, count);
    auto const t = write(request, count);
    REQUIRE(turn([&] { return t.outcome().has_value(); }));
    INFO(t.outcome()->why);
    REQUIRE(t.outcome()->ok());
    CHECK(exactly(count));
  }

  std::shared_ptr<Network> network = std::make_shared<Network>();
  std::vector<std::byte> content = laws::detail::noise(blocks_total * block, 3);
  std::vector<std::byte> canary = std::vector<std::byte>(blocks_total * block, std::byte{0xa5});
  CudaMemory from{blocks_total * block};
  CudaMemory to{blocks_total * block};
  std::unique_ptr<Node> a{};
  std::unique_ptr<Node> b{};
  PeerId peer{};
};

using Pair = PairOf<Node>;

template <class Staging, class Completion = completion::CopyEvent>
using Over =
    Transceiver<Staging, tag::Hashed, Completion, quarantine::TtlMs<300>, transport::Loopback>;

/// A stream of the engine's that fills the source pages, and its event.
struct Producer {
  Producer() {
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Producer() {
    (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream);
  }
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

}  // namespace

TEST_CASE("a WRITE from GPU to GPU makes the destination equal the source and touches nothing else",
          "[gpu]") {
  if (support::no_gpu()) return;
  Pair n;
  n.require_works(1, 300);
  CHECK(n.a->explain().find("staging::PinnedHost") != std::string::npos);
}

TEMPLATE_TEST_CASE(
    "a WRITE through any staging makes the destination equal the source", "[gpu]",
    (staging::PinnedHost<slicing::Pipelined<64 << 10, 3>, copy::Direct>),
    (staging::PinnedHost<slicing::Pipelined<64 << 10, 3>, copy::CopyEngineBatch>),
    (staging::SharedHost<slicing::Pipelined<64 << 10, 3>, copy::Staged, staging::CudaPinning>),
    (staging::SharedHost<slicing::Pipelined<64 << 10, 3>, copy::Direct, staging::CudaPinning>),
    (staging::Device<slicing::Pipelined<64 << 10, 3>, copy::Peer>)) {
  if (support::no_gpu()) return;
  PairOf<Over<TestType>> n;
  n.require_works(1, 300);
  n.require_works(2, 400);
  if constexpr (SharesViews<TestType>)
    CHECK_THAT(n.a->explain(), Catch::Contains("written into its staging from here"));
  auto const& m = n.a->metrics();
  CHECK(m.staging_free.get() == m.staging_total.get());
}

TEST_CASE("with digests a WRITE between GPUs lands, and a payload that changed on its way does not",
          "[gpu]") {
  if (support::no_gpu()) return;
  PairOf<Over<staging::PinnedHost<slicing::Pipelined<64 << 10, 3>, copy::Staged>,
              completion::Digested>>
      n;
  n.require_works(1, 300);
  support::Forger f(n.network, [](transport::loopback::Passing const& p) {
    auto const h = wire::decode_data_header(p.bytes);
    return h && h->chunk == ChunkIndex{2};
  });
  auto g = n.grant(2, 300);
  auto t = n.write(2, 300);
  REQUIRE(n.turn([&] { return !f.message.empty(); }));
  f.message.back() ^= std::byte{1};
  f.deliver();
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->reason == Reason::integrity);
  CHECK_THAT(t.outcome()->why, Catch::Contains("DATA 2") && Catch::Contains("digests differ"));
  n.require_works(3, 300);
}

TEST_CASE("device staging refuses host spans and says why, and the next transfer is exact",
          "[gpu]") {
  if (support::no_gpu()) return;
  PairOf<Over<staging::Device<slicing::Pipelined<64 << 10, 3>, copy::Peer>>> n;
  auto const g = n.grant(1, 1);
  std::vector<std::byte> host(block);
  std::vector<LocalSpan> const source{{host.data(), block, Device::host}};
  std::vector<RemoteSpan> const to{as_remote(n.spans(n.to, n.destination_of, 1)[0])};
  auto const t = n.a->write(
      n.peer,
      {.request = RequestId{1}, .sources = source, .destinations = to, .deadline = seconds(10)});
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->reason == Reason::copy_failed);
  CHECK_THAT(t.outcome()->why, Catch::Contains("its staging is GPU memory"));
  CHECK(n.exactly(0));
  n.require_works(2, 200);
}

TEST_CASE("no byte is gathered before the source-ready event: the old pattern never lands",
          "[gpu][C04]") {
  if (support::no_gpu()) return;
  Pair n;
  Producer producer;
  n.from.write(std::vector<std::byte>(blocks_total * block, std::byte{0x11}));  // the old pattern
  CudaMemory fresh(blocks_total * block);
  fresh.write(n.content);
  Gate gate;
  gate.close(producer.stream);
  cuda(cudaMemcpyAsync(n.from.data(), fresh.data(), blocks_total * block, cudaMemcpyDeviceToDevice,
                       producer.stream));
  cuda(cudaEventRecord(producer.event, producer.stream));
  auto const g = n.grant(1, 64);
  auto const t = n.write(1, 64, seconds(30), producer.event);
  n.turn_a_while();
  CHECK_FALSE(t.outcome());
  CHECK_FALSE(t.sources_released());
  CHECK(n.exactly(0));
  gate.open();
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->ok());
  CHECK(n.from.read() == n.content);
  CHECK(n.exactly(64));
}

TEST_CASE("RESULT does not leave before the last scatter has ended on the GPU", "[gpu][S2]") {
  if (support::no_gpu()) return;
  Gates gates;
  Pair n(nullptr, &gates.scatter);
  auto const g = n.grant(1, 64);
  auto const t = n.write(1, 64);
  n.turn_a_while();
  CHECK_FALSE(t.outcome());
  CHECK(n.exactly(0));
  gates.scatter.open();
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(64));
}

TEST_CASE("sources are not released while a gather is held up on the GPU", "[gpu]") {
  if (support::no_gpu()) return;
  Gates gates;
  Pair n(&gates.gather, nullptr);
  auto const g = n.grant(1, 8);
  auto const t = n.write(1, 8);
  n.turn_a_while();
  CHECK_FALSE(t.sources_released());
  CHECK(n.exactly(0));
  gates.gather.open();
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.sources_released());
  CHECK(n.exactly(8));
}

TEST_CASE("a deadline while a gather is held up ends in quarantine, and the streams work on",
          "[gpu][S9]") {
  if (support::no_gpu()) return;
  Gates gates;
  Pair n(&gates.gather, nullptr);
  {
    auto const g = n.grant(1, 64);
    auto const t = n.write(1, 64, milliseconds(200));
    REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
    CHECK(t.outcome()->reason == Reason::deadline);
    CHECK_FALSE(t.outcome()->sources_quiescent);
    CHECK_FALSE(t.sources_released());
    CHECK(n.a->metrics().staging_quarantined.get() > 0);
    gates.gather.open();
    REQUIRE(n.turn([&] { return t.sources_released(); }));  // told when the gather has really ended
  }
  CHECK(n.exactly(0));
  n.require_works(2, 300);
  // Past its time what sat out is dropped and replaced, never recycled.
  REQUIRE(n.turn([&] { return n.a->metrics().generations_penned.get() == 0; }));
  auto const& m = n.a->metrics();
  REQUIRE(n.turn([&] { return m.staging_free.get() == m.staging_total.get(); }));
}

TEST_CASE("a deadline while a scatter is held up keeps its pages until it has ended",
          "[gpu][S9][K2]") {
  if (support::no_gpu()) return;
  Gates gates;
  Pair n(nullptr, &gates.scatter);
  {
    auto g = n.grant(1, 8);
    auto const t = n.write(1, 8, milliseconds(300));
    REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
    CHECK_FALSE(t.outcome()->ok());
    std::optional<Outcome> there;
    REQUIRE(n.turn([&] { return (there = g.next({})).has_value(); }));
    CHECK_FALSE(there->ok());
    CHECK_FALSE(there->destinations_quiescent);
    auto const early = g.revoke(milliseconds(50));
    CHECK_FALSE(early);  // a scatter can still write them
    gates.scatter.open();
    n.turn_a_while();
    CHECK(g.revoke(seconds(20)));
  }
  n.to.write(n.canary);
  n.require_works(2, 300);
}

TEST_CASE("a source that is not where it is said to be fails that request, and the next is exact",
          "[gpu]") {
  if (support::no_gpu()) return;
  Pair n;
  auto const g = n.grant(1, 1);
  std::vector<std::byte> host(block);
  std::vector<LocalSpan> const wrong{{host.data(), block, Device{0}}};
  std::vector<RemoteSpan> const to{as_remote(n.spans(n.to, Pair::destination_of, 1)[0])};
  auto const t = n.a->write(
      n.peer,
      {.request = RequestId{1}, .sources = wrong, .destinations = to, .deadline = seconds(10)});
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->reason == Reason::copy_failed);
  CHECK_THAT(t.outcome()->why, Catch::Contains("said to be on device 0"));
  CHECK(n.exactly(0));
  n.require_works(2, 200);
}

TEST_CASE(
    "a destination that is no GPU memory fails that request on both sides, and the next is exact",
    "[gpu]") {
  if (support::no_gpu()) return;
  Pair n;
  auto* const unknown = reinterpret_cast<std::byte*>(std::uintptr_t{0x4242'0000});
  LocalSpan const wrong{unknown, block, Device{0}};
  n.b->register_memory(wrong);
  std::vector<LocalSpan> const destination{wrong};
  auto g = n.b->grant(RequestId{1}, destination, seconds(60));
  auto const source = n.spans(n.from, Pair::source_of, 1);
  std::vector<RemoteSpan> const to{as_remote(wrong)};
  auto const t = n.a->write(
      n.peer,
      {.request = RequestId{1}, .sources = source, .destinations = to, .deadline = seconds(10)});
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->reason == Reason::copy_failed);
  CHECK_THAT(t.outcome()->why, Catch::Contains("no memory that CUDA knows"));
  CHECK(n.exactly(0));
  n.require_works(2, 200);
}

// Takes the process's CUDA context with it: run alone.
TEST_CASE("a lost CUDA context fails the request and says that the process must restart",
          "[.][gpu-lost]") {
  if (support::no_gpu()) return;
  Pair n;
  Producer producer;
  auto const g = n.grant(1, 1);
  support::fault(producer.stream);
  cuda(cudaEventRecord(producer.event, producer.stream));
  auto const t = n.write(1, 1, seconds(10), producer.event);
  REQUIRE(n.turn([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->reason == Reason::copy_failed);
  CHECK_THAT(t.outcome()->why, Catch::Contains("sticky") && Catch::Contains("restart"));
  auto const again = n.write(2, 1, seconds(10));
  REQUIRE(n.turn([&] { return again.outcome().has_value(); }));
  CHECK_FALSE(again.outcome()->ok());
}
