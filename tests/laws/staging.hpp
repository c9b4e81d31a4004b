#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include <b10/staging.hpp>

#include "support/catch.hpp"

namespace laws {

inline void adds_up(b10::StagingGauges const& g) {
  if (g.free + g.leased + g.quarantined + g.abandoned != g.total) {
    FAIL("K6: " << g.free << " + " << g.leased << " + " << g.quarantined << " + " << g.abandoned
                << " is not " << g.total);
  }
}

/// Every model of b10::Staging passes these. `make()` returns a fresh pool of 4 to 64 views,
/// refilled inline.
template <class Make>
void staging(Make&& make) {
  using namespace b10;
  using S = std::remove_cvref_t<decltype(make())>;
  static_assert(Staging<S>);
  constexpr std::size_t header_room = 64;

  SECTION("a fresh pool is all free") {
    auto pool = make();
    auto const g = pool.gauges();
    adds_up(g);
    CHECK(g.free == g.total);
    CHECK(g.total >= 4 * pool.slice_bytes());
    CHECK(g.total % pool.slice_bytes() == 0);
  }
  SECTION("views are exclusive, hold a header and a slice, and are as many as the gauges say") {
    auto pool = make();
    auto const views_total = pool.gauges().total / pool.slice_bytes();
    std::vector<typename S::View> views;
    std::set<std::byte*> seen;
    while (auto view = pool.try_acquire(Use::send)) {
      std::memset(view->data(), static_cast<int>(views.size()), header_room + pool.slice_bytes());
      CHECK(seen.insert(view->data()).second);
      views.push_back(std::move(*view));
      adds_up(pool.gauges());
      CHECK(pool.gauges().leased == views.size() * pool.slice_bytes());
    }
    CHECK(views.size() == views_total);
    for (std::size_t i = 0; i < views.size(); ++i) {  // nobody else wrote into it
      CHECK(views[i].data()[0] == static_cast<std::byte>(i));
      CHECK(views[i].data()[header_room + pool.slice_bytes() - 1] == static_cast<std::byte>(i));
    }
    for (auto& view : views) pool.release(std::move(view));
    CHECK(pool.gauges().free == pool.gauges().total);
  }
  SECTION("receives leave views to sends, and get them all but those") {
    auto pool = make();
    std::vector<typename S::View> views;
    while (auto view = pool.try_acquire(Use::receive)) views.push_back(std::move(*view));
    CHECK(!views.empty());
    auto for_send = pool.try_acquire(Use::send);
    REQUIRE(for_send);
    pool.release(std::move(*for_send));
    for (auto& view : views) pool.release(std::move(view));
  }
  SECTION("a released view is leased again with nothing asked of the system") {
    auto pool = make();
    auto view = pool.try_acquire(Use::send);
    REQUIRE(view);
    auto* const data = view->data();
    pool.release(std::move(*view));
    view = pool.try_acquire(Use::send);
    CHECK(view->data() == data);
    pool.release(std::move(*view));
  }
  SECTION("a view survives a move, of itself and of its pool") {
    auto pool = make();
    auto view = pool.try_acquire(Use::send);
    REQUIRE(view);
    auto* const data = view->data();
    auto moved = std::move(*view);
    CHECK(moved.data() == data);
    if constexpr (std::move_constructible<S>) {
      auto home = std::move(pool);
      home.release(std::move(moved));
      CHECK(home.gauges().free == home.gauges().total);
    } else {
      pool.release(std::move(moved));
    }
  }
  SECTION("quarantined memory is never leased again, whatever its sentence but recycle") {
    auto pool = make();
    auto const total = pool.gauges().total;
    auto view = pool.try_acquire(Use::send);
    REQUIRE(view);
    auto* const data = view->data();
    auto held = pool.quarantine(std::move(*view));
    adds_up(pool.gauges());
    CHECK(pool.gauges().quarantined == pool.slice_bytes());
    CHECK(pool.gauges().total == total);
    auto const leased_again = [&] {
      bool found = false;
      std::vector<typename S::View> views;
      while (auto v = pool.try_acquire(Use::send)) {
        found = found || v->data() == data;
        views.push_back(std::move(*v));
      }
      for (auto& v : views) pool.release(std::move(v));
      return found;
    };
    CHECK_FALSE(leased_again());
    SECTION("held: the pool does not replace it") {
      pool.maintain();
      CHECK(pool.gauges().quarantined == pool.slice_bytes());
      CHECK(pool.gauges().total == total);
      pool.drop(std::move(held));
    }
    SECTION("dropped: the total shrinks, and maintain refills it with fresh, zero memory") {
      std::memset(data, 0x5a, header_room + pool.slice_bytes());
      pool.drop(std::move(held));
      adds_up(pool.gauges());
      CHECK(pool.gauges().total == total - pool.slice_bytes());
      for (int i = 0; i < 64; ++i) pool.maintain();
      CHECK(pool.gauges().total == total);
      CHECK(pool.gauges().free == total);
    }
    SECTION("recycled: back as it was") {
      pool.recycle(std::move(held));
      CHECK(pool.gauges().free == total);
      CHECK(leased_again());
    }
    SECTION("abandoned: stays mapped and out of circulation, and is replaced") {
      pool.abandon(std::move(held));
      adds_up(pool.gauges());
      CHECK(pool.gauges().abandoned == pool.slice_bytes());
      CHECK_FALSE(leased_again());
      for (int i = 0; i < 64; ++i) pool.maintain();
      CHECK(pool.gauges().free == total);
      CHECK(pool.gauges().total == total + pool.slice_bytes());
      CHECK_FALSE(leased_again());
      std::memset(data, 0x77, header_room + pool.slice_bytes());  // a late write harms nobody
    }
    adds_up(pool.gauges());
  }
}

}  // namespace laws
