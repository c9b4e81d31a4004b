#include <b10/copy/memcpy.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "laws/copy_engine.hpp"
#include "support/catch.hpp"
#include "support/held_copy.hpp"
#include "support/host_copy_fixture.hpp"

using namespace b10;

TEST_CASE("Memcpy obeys the copy engine laws", "[copy]") {
  laws::copy_engine(support::host_copies<copy::Memcpy>({}, [](auto&, auto&) {}));
  laws::digesting_copy_engine(support::host_copies<copy::Memcpy>({}, [](auto&, auto&) {}));
}

TEST_CASE("the Held engine of the tests obeys the copy engine laws", "[copy]") {
  laws::copy_engine(support::host_copies<copy::Held>(
      {}, [](copy::Held& engine, auto&) { engine.control()->release_all(); }));
}

TEST_CASE("Memcpy names the device it cannot copy and what to use", "[copy]") {
  std::vector<std::byte> bytes(8);
  std::vector<LocalSpan> const spans{{bytes.data(), 8, Device{3}}};
  copy::Memcpy::Event event;
  try {
    copy::Memcpy{}.gather({spans, 0, 8}, bytes.data(), event);
    FAIL("must throw");
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::copy_failed);
    CHECK_THAT(e.what(), Catch::Contains("device 3") && Catch::Contains("CUDA copy engine"));
  }
}

TEST_CASE("a default HostEvent is ready at once, and firing it changes nothing", "[copy]") {
  HostEvent event;
  CHECK(event.state() == CopyState::done);
  event.fail();
  CHECK(event.state() == CopyState::done);
}

TEST_CASE("all copies of a HostEvent fire together, once", "[copy]") {
  auto const event = HostEvent::create();
  auto copy = event;
  auto const engine = copy::Memcpy{};
  CHECK(engine.source_ready(event) == CopyState::pending);
  copy.fire();
  CHECK(engine.source_ready(event) == CopyState::done);
  copy.fail();
  CHECK(engine.source_ready(event) == CopyState::done);
}

TEST_CASE("a HostEvent that fails never becomes ready", "[copy]") {
  auto event = HostEvent::create();
  event.fail();
  event.fire();
  CHECK(event.state() == CopyState::failed);
}

TEST_CASE("what was written before fire is seen by whoever sees the event done", "[copy]") {
  for (int round = 0; round < 200; ++round) {
    auto event = HostEvent::create();
    int page = 0;
    std::thread filler([&page, event]() mutable {
      page = 42;
      event.fire();
    });
    bool seen = false;
    for (int i = 0; i < 1'000 && !seen; ++i) {
      seen = event.state() == CopyState::done;
      if (seen) CHECK(page == 42);
    }
    filler.join();
    CHECK(event.state() == CopyState::done);
  }
}

TEST_CASE("a held copy touches nothing until it is released, and then only itself", "[copy]") {
  copy::Held engine;
  auto const control = engine.control();
  std::vector<std::byte> from(4, std::byte{1});
  std::vector<std::byte> to(8);
  std::vector<LocalSpan> const first{{to.data(), 4}};
  std::vector<LocalSpan> const second{{to.data() + 4, 4}};
  copy::Held::Event a;
  copy::Held::Event b;
  engine.scatter(from.data(), {first, 0, 4}, a);
  engine.scatter(from.data(), {second, 0, 4}, b);
  CHECK(engine.query(a) == CopyState::pending);
  CHECK(control->started(copy::CopyKind::scatter) == 2);
  CHECK(std::count(to.begin(), to.end(), std::byte{1}) == 0);
  control->release(1);
  CHECK(engine.query(a) == CopyState::pending);
  CHECK(engine.query(b) == CopyState::done);
  CHECK(to[0] == std::byte{0});
  CHECK(to[4] == std::byte{1});
  control->fail(0);
  CHECK(engine.query(a) == CopyState::failed);
  control->release_all();
  CHECK(to[0] == std::byte{0});
  control->refuse_next(copy::CopyKind::scatter, 1);
  CHECK_THROWS_AS(engine.scatter(from.data(), {first, 0, 4}, a), Error);
  control->run_freely(copy::CopyKind::scatter);
  engine.scatter(from.data(), {first, 0, 4}, a);
  CHECK(engine.query(a) == CopyState::done);
  CHECK(to[0] == std::byte{1});
}

TEST_CASE("Copying past the cache is exact at every alignment and touches nothing beside it",
          "[memcpy]") {
  constexpr std::size_t room = 512;
  std::vector<std::byte> from(room + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 + 11);
  alignas(64) std::array<std::byte, room + 128> to;
  for (std::size_t at = 0; at < 64; ++at) {
    for (std::size_t bytes = 0; bytes < 330; bytes += 1 + bytes / 16) {
      to.fill(std::byte{0xA5});
      copy::past_cache(to.data() + at, from.data() + at % 17, bytes);
      copy::past_cache_done();
      for (std::size_t i = 0; i < to.size(); ++i) {
        bool const in = i >= at && i < at + bytes;
        REQUIRE(to[i] == (in ? from[at % 17 + i - at] : std::byte{0xA5}));
      }
    }
  }
}
