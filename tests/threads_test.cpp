// The thread-safe face: many threads write, cancel, grant and revoke while the lane turns on its
// own thread.
#include "support/two_nodes.hpp"

#include <atomic>
#include <thread>

#include "support/catch.hpp"

using namespace b10;
using namespace support;

namespace {
using Threaded = Transceiver<staging::Host<slicing::Pipelined<4096, 3>>, tag::Hashed,
                             completion::CopyEvent, quarantine::Ttl<120>, transport::Loopback>;

Threaded::Config config(std::shared_ptr<transport::Loopback::Network> const& network,
                        char const* name) {
  Threaded::Config c;
  c.name = name;
  c.staging.buffer_bytes = 4096;
  c.staging.buffers = 512;  // more than 100 failed transfers can put into quarantine for 120 s
  c.staging.page_lock = staging::PageLock::never;
  c.quarantine_bytes_max = c.generations_penned_max = ~std::uint64_t{0};
  c.transport.network = network;
  c.transport.address = name;
  return c;
}
}  // namespace

TEST_CASE("Writes from several threads land exactly, each in its own blocks", "[threads]") {
  auto network = std::make_shared<transport::Loopback::Network>();
  Threaded a(config(network, "a")), b(config(network, "b"));
  auto const peer = a.connect("b", seconds(10));
  constexpr std::size_t threads = 4, rounds = 50, bytes = 10'000;
  std::vector<std::byte> source(threads * bytes), pool(threads * bytes, canary);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = pattern(3, i);
  b.register_memory({pool.data(), pool.size()});
  std::atomic<std::size_t> landed{0};
  std::vector<std::thread> workers;
  for (std::size_t w = 0; w < threads; ++w)
    workers.emplace_back([&, w] {
      for (std::size_t r = 0; r < rounds; ++r) {
        RequestId const request{1 + w * rounds + r};
        std::vector<LocalSpan> const d{{pool.data() + w * bytes, bytes}};
        std::vector<LocalSpan> const s{{source.data() + w * bytes, bytes}};
        std::vector<RemoteSpan> const to{{reinterpret_cast<std::uint64_t>(d[0].address), bytes}};
        auto g = b.grant(request, d, seconds(30));
        auto t = a.write(
            peer, {.request = request, .sources = s, .destinations = to, .deadline = seconds(30)});
        auto const o = t.wait(seconds(60));
        auto const here = g.next(seconds(60));
        landed += o && o->ok() && here && here->ok();
        auto proof = g.revoke(seconds(60));
        landed += proof ? 0u : 1000u;  // shows in the count
      }
    });
  for (auto& w : workers) w.join();
  CHECK(landed == threads * rounds);
  CHECK(pool == source);
}

TEST_CASE("Cancels and revocations from other threads end every transfer once, and proofs hold",
          "[threads]") {
  auto network = std::make_shared<transport::Loopback::Network>();
  Threaded a(config(network, "a")), b(config(network, "b"));
  auto const peer = a.connect("b", seconds(10));
  constexpr std::size_t bytes = 40'000;
  std::vector<std::byte> source(bytes, std::byte{0x3C}), pool(bytes, canary);
  b.register_memory({pool.data(), pool.size()});
  for (std::uint64_t r = 1; r <= 100; ++r) {
    std::vector<LocalSpan> const d{{pool.data(), bytes}};
    std::vector<LocalSpan> const s{{source.data(), bytes}};
    std::vector<RemoteSpan> const to{{reinterpret_cast<std::uint64_t>(pool.data()), bytes}};
    auto g = b.grant(RequestId{r}, d, seconds(30));
    std::atomic<int> ended{0};
    auto t = a.write(
        peer, {.request = RequestId{r}, .sources = s, .destinations = to, .deadline = seconds(30)});
    t.on_done([&](Outcome const&) { ++ended; });
    std::thread canceller([&] {
      if (r % 3 == 0) t.cancel();
    });
    std::optional<Quiescent> proof;
    if (r % 3 == 1) proof = g.revoke(seconds(60));
    canceller.join();
    REQUIRE(t.wait(seconds(60)));
    if (!proof) proof = g.revoke(seconds(60));
    REQUIRE(proof);
    // The proof says that nothing writes here any more: touching the pages is no race (TSan
    // watches).
    std::fill(pool.begin(), pool.end(), canary);
    CHECK(ended == 1);
  }
}
