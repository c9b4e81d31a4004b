// The story of scenario.hpp over real UCX: two transceivers, each with a thread of its own.
#include "session/scenario.hpp"

#include <memory>
#include <span>
#include <vector>

#include <b10/steady_clock.hpp>
#include <b10/transceiver.hpp>

#include "support/catch.hpp"

using namespace b10;
using namespace support;

namespace {

template <class Transceiver>
struct UcxBackend {
  using Node = typename AgentRank<Transceiver>::Node;

  static typename Transceiver::Config config(char const* name) {
    typename Transceiver::Config c;
    c.name = name;
    c.staging.buffer_bytes = 64 * 1024;
    c.staging.buffers = 48;
    if constexpr (requires { c.staging.page_lock; }) c.staging.page_lock = staging::PageLock::never;
    c.transport.key = "a test key of enough bytes";
    c.transport.listen = "127.0.0.1:0";
    return c;
  }
  UcxBackend() { b.register_memory({pool_b.data(), pool_b.size()}); }
  ~UcxBackend() {  // before what their callbacks touch
    rank_p.agent.shutdown(seconds(1));
    rank_d.agent.shutdown(seconds(1));
  }

  Node& p() { return rank_p.node; }
  Node& d() { return rank_d.node; }
  std::span<std::byte> source(ses::SlotId s) { return rank_p.slot(s); }
  std::span<std::byte> target(ses::SlotId s) { return rank_d.slot(s); }
  LocalSpan aux() { return {rank_d.aux.data(), rank_d.aux.size()}; }
  template <class Done>
  bool until(Done done) {
    auto const limit = steady_now() + seconds(60);
    while (!done()) {
      if (steady_now() >= limit) return false;
      p().progress();
      d().progress(milliseconds(1));
    }
    return true;
  }

  std::vector<std::byte> pool_a = std::vector<std::byte>(256 * 256);
  std::vector<std::byte> pool_b = std::vector<std::byte>(256 * 256);
  Transceiver a{config("p")}, b{config("d")};
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  AgentRank<Transceiver> rank_p{a, hub, "p", pool_a, steady_now};
  AgentRank<Transceiver> rank_d{b, hub, "d", pool_b, steady_now};
};

}  // namespace

TEST_CASE("The same sessions run over transport::Ucx without change", "[session][scenario][ucx]") {
  using Wire = Transceiver<staging::Host<slicing::Pipelined<1024, 2>>>;
  UcxBackend<Wire> x;
  Scenario<UcxBackend<Wire>>(x).run();
}

TEST_CASE("The same sessions run over shared staging without change", "[session][scenario][ucx]") {
  using Shared = Transceiver<staging::SharedHost<slicing::Pipelined<1024, 2>>>;
  UcxBackend<Shared> x;
  Scenario<UcxBackend<Shared>>(x).run();
}
