#include <b10/core/admission.hpp>

#include <memory>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::core;

namespace {
struct Queue {
  ReadyList ready{};
  DeadlineQueue deadlines{};
  std::vector<std::unique_ptr<Fence>> fences{};
  Fence& fence() {
    fences.push_back(std::make_unique<Fence>(ready, deadlines, Instant{0}, Instant{1000}));
    return *fences.back();
  }
};
}  // namespace

TEST_CASE("Admission lets bytes up to the limit run and the rest wait in order", "[admission]") {
  Queue q;
  Admission a(100, 0);
  Fence &one = q.fence(), &two = q.fence(), &three = q.fence();
  CHECK(a.admit(one, 60));
  CHECK_FALSE(a.admit(two, 60));
  CHECK_FALSE(a.admit(three, 10));  // would fit, but is behind
  CHECK(q.ready.empty());
  a.leave(one, 60);
  CHECK(q.ready.pop() == &two);  // woken
  CHECK(a.admit(two, 60));
  CHECK(q.ready.pop() == &three);
  CHECK(a.admit(three, 10));
  CHECK(a.running() == 70);
}

TEST_CASE("A transfer larger than the limit runs alone, and small ones pass", "[admission]") {
  Queue q;
  Admission a(100, 16);
  Fence &huge = q.fence(), &next = q.fence(), &small = q.fence();
  CHECK(a.admit(huge, 1000));
  CHECK_FALSE(a.admit(next, 50));
  CHECK(a.admit(small, 16));
  a.leave(huge, 1000);
  CHECK(a.admit(next, 50));
}

TEST_CASE("One that gives up waiting does not hold up those behind it", "[admission]") {
  Queue q;
  Admission a(100, 0);
  Fence &one = q.fence(), &two = q.fence(), &three = q.fence();
  CHECK(a.admit(one, 100));
  CHECK_FALSE(a.admit(two, 100));
  CHECK_FALSE(a.admit(three, 50));
  a.leave(two, 0);
  a.leave(one, 100);
  CHECK(a.admit(three, 50));
}
