#include <b10/staging/host.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <b10/core/wire.hpp>
#include <b10/slicing/chunked.hpp>
#include <b10/slicing/whole.hpp>
#include <b10/staging/buffers_for.hpp>

#include "laws/staging.hpp"
#include "support/catch.hpp"
#include "support/held_copy.hpp"

using namespace b10;

static_assert(staging::header_room == wire::data_header_bytes);

namespace {

using Small = staging::Host<slicing::Chunked<1024>>;

Small::Options small(std::uint64_t views) {
  return {.buffer_bytes = 1024,
          .buffers = views,
          .refill = staging::Refill::inline_,
          .page_lock = staging::PageLock::never};
}

bool mapped(void const* address) {
  unsigned char resident = 0;
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto const at = reinterpret_cast<std::uintptr_t>(address) / page * page;
  return mincore(reinterpret_cast<void*>(at), 1, &resident) == 0 || errno != ENOMEM;
}

std::string refusal(auto&& make) {
  try {
    make();
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::invalid_request);
    return e.what();
  }
  FAIL("must throw");
  return {};
}

/// Memory that can be made scarce, and counts what is mapped.
struct ScarceMemory {
  struct World {
    std::atomic<bool> scarce{false};
    std::atomic<bool> slow{false};  ///< allocate() stays inside while this holds, boundedly
    std::atomic<bool> inside{false};
    std::atomic<int> live{0};
    std::atomic<int> made{0};
    std::mutex mutex{};
    std::set<std::byte*> blocks{};  ///< not freed; what a pool abandons it never frees

    ~World() {
      for (auto* block : blocks) delete[] block;
    }
  };
  struct Options {
    World* world = nullptr;
  };
  explicit ScarceMemory(Options o) : world(o.world) {}
  std::byte* allocate(std::size_t bytes) {
    if (world->scarce) throw Error(Reason::refused, "no memory left");
    world->inside = true;
    for (int i = 0; i < 10'000'000 && world->slow; ++i) std::this_thread::yield();
    ++world->live;
    ++world->made;
    std::lock_guard const lock(world->mutex);
    return *world->blocks.insert(new std::byte[bytes]{}).first;
  }
  void free(std::byte* memory, std::size_t) noexcept {
    --world->live;
    std::lock_guard const lock(world->mutex);
    world->blocks.erase(memory);
    delete[] memory;
  }
  World* world;
};

using ScarcePool = staging::BlockPool<ScarceMemory>;

ScarcePool scarce_pool(ScarceMemory::World& world, std::uint64_t views, staging::Refill refill) {
  return ScarcePool({.buffer_bytes = 256, .buffers = views, .slice_bytes = 256}, refill,
                    ScarceMemory::Options{&world});
}

void drop_one(ScarcePool& pool) {
  pool.drop(pool.quarantine(std::move(*pool.try_acquire(Use::send))));
}

/// A pool under random calls, beside a model of its gauges.
struct RandomCalls {
  static constexpr std::uint64_t views = 24;

  Small pool{small(views)};
  std::mt19937 random{20'240'607};
  std::vector<Small::View> leased{};
  std::vector<Small::Quarantined> held{};
  std::set<std::byte*> abandoned{};                    // out of circulation for good
  StagingGauges model{.free = views, .total = views};  // in views

  std::size_t any(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  }
  template <class T>
  T take(std::vector<T>& from) {
    std::swap(from[any(from.size())], from.back());
    auto item = std::move(from.back());
    from.pop_back();
    return item;
  }
  void acquire() {
    auto view = pool.try_acquire(any(2) ? Use::send : Use::receive);
    if (!view) {
      REQUIRE(model.free <= views / 8);
      return;
    }
    REQUIRE(model.free > 0);
    REQUIRE(abandoned.count(view->data()) == 0);
    view->data()[0] = std::byte{1};
    leased.push_back(std::move(*view));
    --model.free, ++model.leased;
  }
  void release() {
    if (leased.empty()) return;
    pool.release(take(leased));
    --model.leased, ++model.free;
  }
  void quarantine() {
    if (leased.empty()) return;
    held.push_back(pool.quarantine(take(leased)));
    --model.leased, ++model.quarantined;
  }
  void sentence() {
    if (held.empty()) return;
    auto item = take(held);
    --model.quarantined;
    if (any(200) == 0 && model.abandoned < views) {
      abandoned.insert(item.data());
      pool.abandon(std::move(item)), ++model.abandoned;
    } else if (any(2) == 0) {
      pool.recycle(std::move(item)), ++model.free;
    } else {
      pool.drop(std::move(item)), --model.total;
    }
  }
  void maintain() {
    pool.maintain();
    if (model.free + model.leased + model.quarantined < views) ++model.free, ++model.total;
  }
  void step() {
    switch (any(9)) {
      case 0:
      case 1:
      case 2:
        return acquire();
      case 3:
      case 4:
        return release();
      case 5:
        return quarantine();
      case 6:
        return sentence();
      default:
        return maintain();
    }
  }
  [[nodiscard]] StagingGauges expected() const {
    auto const& m = model;
    return {m.free * 1024, m.leased * 1024, m.quarantined * 1024, m.abandoned * 1024,
            m.total * 1024};
  }
  void give_back() {
    for (auto& view : leased) pool.release(std::move(view));
    for (auto& item : held) pool.drop(std::move(item));
  }
};

/// Lets the background thread run, boundedly, until `done`.
bool eventually(auto&& done) {
  for (int i = 0; i < 10'000'000; ++i) {
    if (done()) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("Host obeys the staging laws", "[staging]") {
  laws::staging([] { return Small(small(8)); });
}

TEST_CASE("Host obeys the staging laws when one buffer holds many slices", "[staging]") {
  laws::staging([] {
    return staging::Host<slicing::Pipelined<1000, 2>>(
        {.buffer_bytes = 16'500, .buffers = 2, .refill = staging::Refill::inline_});
  });
}

TEST_CASE("Host obeys the staging laws with huge pages", "[staging]") {
  laws::staging([] {
    return staging::Host<slicing::Whole>({.buffer_bytes = (2u << 20) + 1,
                                          .buffers = 4,
                                          .refill = staging::Refill::inline_,
                                          .prefault = staging::Prefault::on_use});
  });
}

TEST_CASE("gauges count slices that fit: a buffer's rest holds nothing", "[staging]") {
  Small const pool({.buffer_bytes = 2500, .buffers = 3});
  CHECK(pool.gauges().total == 3 * 2 * 1024);
  CHECK(pool.slice_bytes() == 1024);
}

TEST_CASE("a slice is never larger than the buffer", "[staging]") {
  staging::Host<> const pool({.buffer_bytes = 4096, .buffers = 2});
  CHECK(pool.slice_bytes() == 4096);
  CHECK(pool.gauges().total == 8192);
}

TEST_CASE("a block of 2 MiB or more is aligned to 2 MiB", "[staging]") {
  staging::Host<slicing::Whole> pool({.buffer_bytes = 2u << 20, .buffers = 2});
  auto view = pool.try_acquire(Use::send);
  CHECK(reinterpret_cast<std::uintptr_t>(view->data()) % (2u << 20) == 0);
  CHECK(view->bytes() == (2u << 20) + staging::header_room);
  pool.release(std::move(*view));
}

TEST_CASE("dropped memory is unmapped, alone", "[staging][S4]") {
  Small pool(small(4));
  auto first = pool.try_acquire(Use::send);
  auto second = pool.try_acquire(Use::send);
  auto* const gone = first->data();
  pool.drop(pool.quarantine(std::move(*first)));
  CHECK_FALSE(mapped(gone));
  std::memset(second->data(), 1, second->bytes());
  pool.release(std::move(*second));
}

TEST_CASE("abandoned memory stays mapped, even when the pool dies", "[staging][C08]") {
  std::byte* data = nullptr;
  {
    Small pool(small(4));
    auto view = pool.try_acquire(Use::send);
    data = view->data();
    pool.abandon(pool.quarantine(std::move(*view)));
    for (int i = 0; i < 10; ++i) pool.maintain();
    CHECK(mapped(data));
  }
  REQUIRE(mapped(data));
  std::memset(data, 7, staging::header_room + 1024);
}

TEST_CASE("receives leave the last eighth, one view or more, to sends", "[staging]") {
  for (auto const& [views, kept] :
       {std::pair{1u, 0u}, {2u, 1u}, {7u, 1u}, {8u, 1u}, {16u, 2u}, {33u, 4u}}) {
    CAPTURE(views);
    Small pool(small(views));
    std::vector<Small::View> leased;
    while (auto view = pool.try_acquire(Use::receive)) leased.push_back(std::move(*view));
    CHECK(leased.size() == views - kept);
    while (auto view = pool.try_acquire(Use::send)) leased.push_back(std::move(*view));
    CHECK(leased.size() == views);
    for (auto& view : leased) pool.release(std::move(view));
  }
}

TEST_CASE("assigning over a moved-from view is no return", "[staging]") {
  Small pool(small(4));
  auto a = std::move(*pool.try_acquire(Use::send));
  auto b = std::move(a);
  CHECK(a.data() == nullptr);
  a = std::move(b);
  CHECK(pool.gauges().leased == 1024);
  pool.release(std::move(a));
  CHECK(pool.gauges().leased == 0);
}

#ifdef NDEBUG  // with asserts these are aborts
TEST_CASE("a view that is lost is abandoned, never leased again", "[staging]") {
  Small pool(small(4));
  { auto view = pool.try_acquire(Use::send); }
  { auto held = pool.quarantine(std::move(*pool.try_acquire(Use::send))); }
  CHECK(pool.gauges().abandoned == 2 * 1024);
  laws::adds_up(pool.gauges());
}

TEST_CASE("a second return of a view changes nothing", "[staging]") {
  Small pool(small(4));
  auto view = pool.try_acquire(Use::send);
  pool.release(std::move(*view));
  pool.release(std::move(*view));
  auto held = pool.quarantine(std::move(*view));
  pool.recycle(std::move(held));
  CHECK(pool.gauges() == StagingGauges{.free = 4096, .total = 4096});
}
#endif

TEST_CASE("the gauges add up over a hundred thousand random calls", "[staging][K6]") {
  RandomCalls calls;
  for (int i = 0; i < 100'000; ++i) {
    calls.step();
    laws::adds_up(calls.pool.gauges());
    if (calls.pool.gauges() != calls.expected()) FAIL("step " << i);
  }
  calls.give_back();
}

TEST_CASE("abandoned blocks are replaced until twice the configured memory is mapped",
          "[staging]") {
  ScarceMemory::World world;
  auto pool = scarce_pool(world, 4, staging::Refill::inline_);
  for (int lost = 0; lost < 8; ++lost) {
    auto view = pool.try_acquire(Use::send);
    REQUIRE(view);
    pool.abandon(pool.quarantine(std::move(*view)));
    for (int i = 0; i < 8; ++i) pool.maintain();
    CHECK(world.live <= 8);
    CHECK(pool.gauges().total == static_cast<std::uint64_t>(world.live) * 256);
  }
  CHECK(pool.gauges().abandoned == 8 * 256);
  CHECK_FALSE(pool.try_acquire(Use::send));
}

TEST_CASE("a refill that fails is not fatal and is tried again", "[staging]") {
  for (auto const refill : {staging::Refill::inline_, staging::Refill::background}) {
    ScarceMemory::World world;
    auto pool = scarce_pool(world, 4, refill);
    world.scarce = true;
    drop_one(pool);
    CHECK(eventually([&] {
      pool.maintain();
      return pool.refill_failures() > 0;
    }));
    for (int i = 0; i < 10'000; ++i) pool.maintain();
    CHECK(pool.refill_failures() < 1'000);  // an idle lane does not hammer the system
    CHECK(pool.gauges().total == 3 * 256);
    auto view = pool.try_acquire(Use::send);  // the rest goes on working
    REQUIRE(view);
    pool.release(std::move(*view));
    world.scarce = false;
    CHECK(eventually([&] {
      pool.maintain();
      return pool.gauges().total == 4 * 256;
    }));
    CHECK(world.live == 4);
  }
}

TEST_CASE("the gauges add up while a refill is under way", "[staging][K6]") {
  ScarceMemory::World world;
  {
    auto pool = scarce_pool(world, 16, staging::Refill::background);
    for (int round = 0; round < 300; ++round) {
      for (int i = 0; i < 8; ++i) {
        auto view = pool.try_acquire(Use::send);
        if (!view) break;
        pool.drop(pool.quarantine(std::move(*view)));
        laws::adds_up(pool.gauges());
        REQUIRE(pool.gauges().total <= 16 * 256);
      }
      pool.maintain();
      laws::adds_up(pool.gauges());
    }
    CHECK(eventually([&] {
      pool.maintain();
      return pool.gauges().free == 16 * 256;
    }));
    for (int i = 0; i < 100; ++i) pool.maintain();
    CHECK(pool.gauges().total == 16 * 256);      // and no more than that
    for (int i = 0; i < 8; ++i) drop_one(pool);  // the pool dies in the middle of it
  }
  CHECK(world.live == 0);
}

TEST_CASE("an empty pool takes in fresh blocks without waiting for maintain", "[staging]") {
  ScarceMemory::World world;
  auto pool = scarce_pool(world, 1, staging::Refill::background);
  drop_one(pool);
  pool.maintain();
  std::optional<ScarcePool::View> view;
  CHECK(eventually([&] { return (view = pool.try_acquire(Use::receive)).has_value(); }));
  pool.release(std::move(*view));
}

TEST_CASE("a block that is being made is not asked for again", "[staging]") {
  ScarceMemory::World world;
  auto pool = scarce_pool(world, 4, staging::Refill::background);
  world.slow = true;
  world.inside = false;
  drop_one(pool);
  pool.maintain();
  CHECK(eventually([&] { return world.inside.load(); }));
  for (int i = 0; i < 10; ++i) pool.maintain();
  world.slow = false;
  CHECK(eventually([&] {
    pool.maintain();
    return pool.gauges().total == 4 * 256;
  }));
  for (int i = 0; i < 20'000 && world.made == 5; ++i) std::this_thread::yield();
  CHECK(world.made == 5);
}

TEST_CASE("a receive leaves the last view to sends also when it is a fresh one", "[staging]") {
  ScarceMemory::World world;
  auto pool = scarce_pool(world, 2, staging::Refill::background);
  auto other = std::move(*pool.try_acquire(Use::send));
  drop_one(pool);
  for (int i = 0; i < 10'000'000 && pool.gauges().free == 0; ++i) {
    if (world.made < 3 && i % 64 == 0) pool.maintain();
    REQUIRE_FALSE(pool.try_acquire(Use::receive));
    std::this_thread::yield();
  }
  CHECK(pool.gauges().free == 256);
  auto view = pool.try_acquire(Use::send);
  REQUIRE(view);
  pool.release(std::move(*view));
  pool.release(std::move(other));
}

TEST_CASE("a pool that cannot be built leaves nothing behind", "[staging]") {
  struct Third : ScarceMemory {
    using ScarceMemory::ScarceMemory;
    std::byte* allocate(std::size_t bytes) {
      if (world->made == 2) throw Error(Reason::refused, "no memory left");
      return ScarceMemory::allocate(bytes);
    }
  };
  ScarceMemory::World world;
  CHECK_THROWS_AS(
      staging::BlockPool<Third>({.buffer_bytes = 256, .buffers = 4, .slice_bytes = 256},
                                staging::Refill::inline_, ScarceMemory::Options{&world}),
      Error);
  CHECK(world.live == 0);
}

TEST_CASE("staging larger than memory is refused with value, limit and knob", "[staging]") {
  auto const why = refusal([] { Small({.buffer_bytes = std::uint64_t{1} << 50, .buffers = 2}); });
  CHECK_THAT(why, Catch::Contains("staging larger than memory") &&
                      Catch::Contains("2 buffers of 1125899906842624 bytes") &&
                      Catch::Contains("the machine has") && Catch::Contains("buffer_bytes"));
  refusal([] { Small({.buffer_bytes = ~std::uint64_t{0}, .buffers = ~std::uint64_t{0}}); });
}

TEST_CASE("staging of nothing, or of too many slices, is refused with the knob", "[staging]") {
  CHECK_THAT(refusal([] { Small({.buffer_bytes = 0}); }), Catch::Contains("buffer_bytes"));
  CHECK_THAT(refusal([] { Small({.buffers = 0}); }), Catch::Contains("buffers"));
  CHECK_THAT(refusal([] { Small({.buffer_bytes = 64u << 20, .buffers = 1}); }),
             Catch::Contains("65536 slices exceeds 32768") && Catch::Contains("larger slices"));
}

TEST_CASE("C71 page locking that is required but not allowed names the limit", "[staging]") {
  Small const unlocked(small(2));
  CHECK_FALSE(unlocked.page_locked());
  auto options = small(2);
  options.page_lock = staging::PageLock::require;
  try {
    CHECK(Small(options).page_locked());
  } catch (Error const& e) {  // where the limit is below two pages
    CHECK(e.reason() == Reason::refused);
    CHECK_THAT(e.what(), Catch::Contains("ulimit -l"));
  }
}

TEST_CASE("the number of buffers follows from the token budget", "[staging]") {
  using staging::buffers_for;
  CHECK(buffers_for({.max_tokens = 8193, .buffer_bytes = 4096, .bytes_per_token = 1024}) == 2049);
  CHECK(buffers_for({.max_tokens = 8193, .buffer_bytes = 4096, .bytes_per_token = 1048}) == 2731);
  CHECK(buffers_for({.max_tokens = 8192, .buffer_bytes = 4096, .bytes_per_token = 4096}) == 8192);
  CHECK(buffers_for({.max_tokens = 1, .buffer_bytes = 4096, .bytes_per_token = 1}) == 1);
  CHECK(buffers_for({.max_tokens = 0, .buffer_bytes = 4096, .bytes_per_token = 1}) == 0);
  CHECK(buffers_for({.max_tokens = ~0ull, .buffer_bytes = 1, .bytes_per_token = 1}) == ~0ull);
  CHECK_THAT(refusal([] {
               (void)buffers_for({8193, 4096, 4097});
             }),
             Catch::Contains("4097") && Catch::Contains("4096") && Catch::Contains("buffer_bytes"));
  refusal([] { (void)buffers_for({8193, 4096, 0}); });
}

TEST_CASE("a pool takes its copy engine from its options", "[staging]") {
  copy::Held const engine;
  staging::Host<slicing::Whole, copy::Held> pool(
      {.buffer_bytes = 64, .buffers = 1, .copies = engine});
  CHECK(pool.copies().control() == engine.control());
}
