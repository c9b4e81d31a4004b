// One story of sessions over each agent that needs no network: nothing in it knows which. Over real
// UCX: ucx_sessions_test.cpp.
#include "session/scenario.hpp"

#include <memory>
#include <vector>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"
#include "support/sim_nodes.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

/// Over the recording agent, which lands what it is given as soon as its event has fired.
struct FakeBackend {
  using Node = Rank::Node;
  Node& p() { return *x.p.node; }
  Node& d() { return *x.d.node; }
  std::span<std::byte> source(ses::SlotId s) { return x.p.slot(s); }
  std::span<std::byte> target(ses::SlotId s) { return x.d.slot(s); }
  LocalSpan aux() { return {x.d.aux.data(), x.d.aux.size()}; }
  template <class Done>
  bool until(Done done) {
    for (int i = 0; i < 100; ++i) {
      if (done()) return true;
      x.settle();
      x.p.agent.land_all();
    }
    return false;
  }
  TwoRanks x{};
};

struct LoopbackBackend : TwoNodes<> {
  using Node = AgentRank<support::Node<>>::Node;
  Node& p() { return rank_p.node; }
  Node& d() { return rank_d.node; }
  std::span<std::byte> source(ses::SlotId s) { return rank_p.slot(s); }
  std::span<std::byte> target(ses::SlotId s) { return rank_d.slot(s); }
  LocalSpan aux() { return {rank_d.aux.data(), rank_d.aux.size()}; }
  template <class Done>
  bool until(Done done) {
    for (int i = 0; i < 100; ++i) {
      if (done()) return true;
      settle();
      p().progress();
      d().progress();
      network->advance(milliseconds(1));
    }
    return false;
  }
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  AgentRank<support::Node<>> rank_p{*a, hub, "a", source_memory(),
                                    [this] { return network->now(); }};
  AgentRank<support::Node<>> rank_d{*b, hub, "b", pool, [this] { return network->now(); }};
  std::span<std::byte> source_memory() { return TwoNodes<>::source; }
};

struct SimBackend : SimNodes<> {
  using T = std::remove_reference_t<decltype(*std::declval<SimNodes<>::Node>().b10)>;
  using Node = AgentRank<T>::Node;
  Node& p() { return rank_p.node; }
  Node& d() { return rank_d.node; }
  std::span<std::byte> source(ses::SlotId s) { return rank_p.slot(s); }
  std::span<std::byte> target(ses::SlotId s) { return rank_d.slot(s); }
  LocalSpan aux() { return {rank_d.aux.data(), rank_d.aux.size()}; }
  template <class Done>
  bool until(Done done) {
    return SimNodes<>::until([&] {
      p().progress();
      d().progress();
      return done();
    });
  }
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  AgentRank<T> rank_p{*nodes[0]->b10, hub, "a", nodes[0]->pool, [this] { return network->now(); }};
  AgentRank<T> rank_d{*nodes[1]->b10, hub, "b", nodes[1]->pool, [this] { return network->now(); }};
};

template <class Backend>
void tell() {
  Backend backend;
  Scenario<Backend>(backend).run();
}

}  // namespace

TEST_CASE("Sessions run over a recording agent", "[session][scenario]") { tell<FakeBackend>(); }

TEST_CASE("The same sessions run over transport::Loopback without change", "[session][scenario]") {
  tell<LoopbackBackend>();
}

TEST_CASE("The same sessions run over transport::Sim without change", "[session][scenario]") {
  tell<SimBackend>();
}
