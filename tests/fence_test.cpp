#include <b10/core/fence.hpp>
#include <b10/core/task.hpp>

#include <memory>
#include <random>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::core;

namespace {

/// Waits for `arrived`, as every pipeline does.
Task waiter(Fence& fence, bool const& arrived, std::string& result) {
  try {
    while (!arrived) co_await fence.next("the thing");
    result = "arrived";
  } catch (Error const& e) {
    result = e.what();
  }
}

void run(ReadyList& ready) {
  ReadyList batch = std::exchange(ready, ReadyList{});
  while (Waker* w = batch.pop()) static_cast<Fence*>(w)->resume();
}

}  // namespace

TEST_CASE("A wait that is woken continues, and one that is not ends at its deadline", "[fence]") {
  ReadyList ready;
  DeadlineQueue deadlines;
  bool arrived = false;
  std::string result;
  Fence fence(ready, deadlines, Instant{0}, Instant{100});
  Task t = waiter(fence, arrived, result);
  t.start();
  SECTION("woken") {
    arrived = true;
    fence.wake();
    run(ready);
    CHECK(result == "arrived");
  }
  SECTION("woken for nothing, then late") {
    fence.wake();
    run(ready);
    CHECK(result.empty());
    CHECK(deadlines.expire(Instant{99}) == 0);
    CHECK(deadlines.expire(Instant{100}) == 1);
    run(ready);
    CHECK(result.find("the thing") != std::string::npos);
    CHECK(deadlines.expire(Instant{200}) == 0);  // once
  }
  SECTION("C39 what has arrived counts before the deadline") {
    arrived = true;
    CHECK(deadlines.expire(Instant{500}) == 1);
    run(ready);
    CHECK(result == "arrived");
  }
  SECTION("stopped: the first reason stays") {
    fence.stop(Reason::cancelled, "first");
    fence.stop(Reason::peer_lost, "second");
    run(ready);
    CHECK(result.find("first") == 0);
  }
  CHECK(t.done());
}

TEST_CASE(
    "The deadline queue expires exactly those that are due, in any order of adding and removing",
    "[fence]") {
  std::mt19937 random(7);
  ReadyList ready;
  DeadlineQueue deadlines;
  std::vector<std::unique_ptr<Fence>> fences;
  for (int step = 0; step < 20'000; ++step) {
    auto const dice = random() % 10;
    if (dice < 5 || fences.empty()) {
      fences.push_back(std::make_unique<Fence>(
          ready, deadlines, Instant{0}, Instant{static_cast<std::int64_t>(random() % 1000)}));
    } else if (dice < 8) {
      auto const i = random() % fences.size();
      fences.erase(fences.begin() + static_cast<long>(i));
    } else {
      fences[random() % fences.size()]->set_deadline(
          Instant{static_cast<std::int64_t>(random() % 1000)});
    }
    Instant nearest{std::numeric_limits<std::int64_t>::max()};
    for (auto& f : fences) nearest = std::min(nearest, f->deadline());
    if (step % 50 == 0) REQUIRE(deadlines.nearest() == nearest);
  }
  unsigned due = 0;
  for (auto& f : fences) due += f->deadline() <= Instant{500};
  CHECK(deadlines.expire(Instant{500}) == due);
  for (auto& f : fences) CHECK((f->stopped() != Reason::none) == (f->deadline() <= Instant{500}));
}
