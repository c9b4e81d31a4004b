// Sessions under several threads, and at each point of a race, a thousand times.
#include <b10/session/session_node.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;

namespace {

/// Lets threads start together.
class Gate {
 public:
  explicit Gate(int threads) : left_(threads) {}
  void pass() {
    --left_;
    while (left_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> left_;
};

/// One request of four blocks whose pages are checked and given back. Throws if anything is wrong.
struct OneRequest {
  explicit OneRequest(TwoRanks& ranks, std::uint64_t request)
      : x(ranks), tx(x.tx(request, 16)), rx(x.rx(request, 16)), event(HostEvent::create()) {
    slots = x.receive(*rx, 16);
    x.settle();
    slice = x.slice(0, 0, 4, true, event);
  }
  /// After everything was let go: ends both sides and returns what the sender reports.
  SessionStatus finish() {
    event.fire();
    x.p.agent.land_all();
    x.settle();
    auto const end = tx->status();
    if (tx->has_transferring_tasks()) throw std::runtime_error("not drained");
    if (tx->close() != CloseAnswer::closed) throw std::runtime_error("close refused");
    x.settle();
    if (!ended(rx->status())) throw std::runtime_error("the receiver hangs");
    if (rx->status() == SessionStatus::fully_transferred && x.exact(slots) != 4)
      throw std::runtime_error("wrong bytes");
    if (!rx->take_pages({})) throw std::runtime_error("no proof");
    if (rx->close() != CloseAnswer::closed) throw std::runtime_error("close refused");
    x.d.give(slots);
    x.forget_source();
    return end;
  }
  TwoRanks& x;
  std::shared_ptr<Rank::Node::Tx> tx;
  std::shared_ptr<Rank::Node::Rx> rx;
  HostEvent event;
  Rank::Slice slice;
  std::vector<SlotId> slots;
};

}  // namespace

TEST_CASE("R2 cancel against the wait for an event, at five points a thousand times",
          "[session][R2]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  std::uint64_t request = 0;
  std::size_t wrong = 0;
  for (int point = 0; point < 5; ++point)
    for (int run = 0; run < 1000; ++run) {
      OneRequest r(x, ++request);
      auto const before = x.p.agent.writes();
      CancelAnswer answer{};
      if (point == 0) {  // before the task exists
        answer = r.tx->cancel();
        try {
          r.tx->send(r.slice);
          ++wrong;
        } catch (Error const&) {
        }
        wrong += answer != CancelAnswer::drained || x.p.agent.writes() != before;
      } else {
        r.tx->send(r.slice);
        if (point >= 2) r.event.fire();          // 1: while it waits
        if (point >= 3) x.p.agent.land(before);  // 2: the event has fired, nothing has read it
        if (point >= 4) x.settle();              // 3: landed, not noticed; 4: noticed
        answer = r.tx->cancel();
        wrong += (answer == CancelAnswer::drained) != (point >= 3);
        wrong += r.tx->has_transferring_tasks() != (point < 3);
        wrong += (r.tx->close() == CloseAnswer::closed) != (point >= 3);
      }
      auto const end = r.finish();
      wrong += end != (point >= 3 ? SessionStatus::fully_transferred : SessionStatus::cancelled);
    }
  CHECK(wrong == 0);
  CHECK(x.d.free[0].size() == pool_slots);
}

TEST_CASE("R2 cancel, send and the event on three threads end well a thousand times",
          "[session][R2][threads]") {
  TwoRanks x;
  x.p.agent.automatic = false;
  for (std::uint64_t run = 1; run <= 1000; ++run) {
    OneRequest r(x, run);
    Gate gate(3);
    std::thread sender([&] {
      gate.pass();
      try {
        r.tx->send(r.slice);
      } catch (Error const&) {
      }
    });
    std::thread canceller([&] {
      gate.pass();
      (void)r.tx->cancel();
    });
    gate.pass();
    r.event.fire();
    x.p.agent.land_all();
    sender.join();
    canceller.join();
    auto const end = r.finish();
    if (end != SessionStatus::cancelled && end != SessionStatus::fully_transferred)
      FAIL("run " << run << " ended as " << to_string(end));
  }
  CHECK(x.d.free[0].size() == pool_slots);
}

TEST_CASE("R22 eight threads that ask for one request get one session", "[session][R22]") {
  TwoRanks x;
  for (std::uint64_t request = 1; request <= 50; ++request) {
    std::vector<std::shared_ptr<Rank::Node::Tx>> got(8);
    std::vector<std::thread> threads;
    Gate gate(8);
    for (auto& each : got)
      threads.emplace_back([&] {
        gate.pass();
        each = x.tx(request, 16);
      });
    for (auto& t : threads) t.join();
    for (auto const& each : got) REQUIRE(each == got[0]);
    REQUIRE(x.p.node->gauges().constructed == request);
  }
}

TEST_CASE("R28 replay to a late receiver and new chunks keep their order, a thousand races",
          "[session][R28][threads]") {
  TwoRanks x;
  std::vector<std::byte> const token(3, std::byte{7});
  for (std::uint64_t run = 1; run <= 1000; ++run) {
    auto tx = x.tx(run, 32, true);
    auto rx = x.rx(run, 32);
    std::vector<Rank::Slice> slices;
    for (std::uint32_t c = 0; c < 4; ++c) slices.push_back(x.slice(c, 2 * c, 2 * c + 2, c == 3));
    auto const before = x.p.agent.writes();
    Gate gate(2);
    std::thread prefill([&] {
      gate.pass();
      for (auto& s : slices) tx->send(s);
      tx->send_aux(token);
    });
    auto const slots = x.receive(*rx, 32, true);
    gate.pass();
    x.p.node->progress();
    prefill.join();
    x.settle();
    REQUIRE(rx->status() == SessionStatus::fully_transferred);
    REQUIRE(rx->aux() == token);
    REQUIRE(x.exact(slots) == 8);
    REQUIRE(x.p.agent.writes() == before + 5);
    for (std::uint32_t c = 0; c < 4; ++c)
      REQUIRE(x.p.agent.sources(before + c)[0].address == x.p.slot(x.source[2 * c]).data());
    REQUIRE(rx->take_pages({}));
    REQUIRE(rx->close() == CloseAnswer::closed);
    REQUIRE(tx->close() == CloseAnswer::closed);
    x.d.give(slots);
    x.forget_source();
  }
}

TEST_CASE("Both sides cancel at once while chunks move: each ends once, pages are free",
          "[session][C45][threads]") {
  TwoRanks x;
  for (std::uint64_t run = 1; run <= 200; ++run) {
    auto tx = x.tx(run, 48);
    auto rx = x.rx(run, 48);
    auto const slots = x.receive(*rx, 48);
    x.settle();
    std::vector<Rank::Slice> slices;
    for (std::uint32_t c = 0; c < 6; ++c) slices.push_back(x.slice(c, 2 * c, 2 * c + 2, c == 5));
    Gate gate(3);
    std::thread prefill([&] {
      gate.pass();
      try {
        for (auto& s : slices) tx->send(s);
      } catch (Error const&) {
      }
    });
    std::thread canceller([&] {
      gate.pass();
      (void)tx->cancel();
    });
    gate.pass();
    (void)rx->cancel();
    prefill.join();
    canceller.join();
    x.settle();
    REQUIRE(ended(tx->status()));
    REQUIRE(ended(rx->status()));
    REQUIRE_FALSE(tx->has_transferring_tasks());
    REQUIRE(rx->take_pages({}));
    REQUIRE(tx->close() == CloseAnswer::closed);
    REQUIRE(rx->close() == CloseAnswer::closed);
    x.d.give(slots);
    x.forget_source();
  }
  x.settle();
  CHECK(x.d.free[0].size() == pool_slots);
  CHECK(x.p.node->gauges().tx + x.d.node->gauges().rx == 0);
}
