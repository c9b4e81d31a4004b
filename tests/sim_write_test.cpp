// The production pipelines over the simulated network: the faults that campaigns have found, each
// as a small case of its own.
#include "support/sim_nodes.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using support::SimNodes;
using transport::sim::MessageFault;

namespace {

/// Transfer ids by the node that named them, for each pair of incarnations.
struct Names final : sim::Observer {
  explicit Names(sim::Timeline& timeline) : journal_(timeline.journal) { journal_.observer = this; }
  Names(Names const&) = delete;
  Names& operator=(Names const&) = delete;
  ~Names() { journal_.observer = nullptr; }  // the nodes note things while they end
  void saw(sim::Event const& e) override {
    if (e.what == sim::What::posted && e.name && e.name->kind == MessageKind::control)
      by[{e.node, e.other}].insert(to_integer(e.name->transfer));
  }
  std::map<std::pair<sim::NodeId, sim::NodeId>, std::set<std::uint64_t>> by;

 private:
  sim::Journal& journal_;
};

}  // namespace

TEST_CASE("Over the simulated network bytes land exactly, and a run repeats itself", "[sim]") {
  auto const run = [](std::uint64_t seed) {
    SimNodes n(3, {.seed = seed, .eager_bytes = 300});
    auto const to_b = n.connect(0, 1);
    auto const to_c = n.connect(1, 2);
    std::vector<Grant> grants;
    std::vector<Transfer> transfers;
    for (std::uint64_t i = 1; i <= 10; ++i) {
      grants.push_back(n.grant(1, i, 10 * i, 10));
      transfers.push_back(n.write(0, to_b, 1, i, 10 * i, 10));
      grants.push_back(n.grant(2, i, 10 * i, 7));
      transfers.push_back(n.write(1, to_c, 2, i, 10 * i, 7));
      n.advance(microseconds(30));
    }
    for (auto& t : transfers) {
      REQUIRE(n.until([&] { return t.outcome().has_value(); }));
      CHECK(t.outcome()->ok());
    }
    CHECK(n.equal(0, 1, 10, 100));
    return n.network->timeline->journal.hash();
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("Transfers between nodes that connect to each other at once all land", "[sim][K8]") {
  // Generations overtake each other, and each side begins on the one that it knows first.
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    SimNodes n(2, {.seed = seed});
    sim::Random random(seed);
    std::vector<Grant> grants;
    std::vector<Transfer> transfers;
    std::vector<decltype(n.nodes[0]->b10->begin_connect("", seconds(1)))> connecting;
    auto const write = [&](std::size_t from) {
      auto const peer = n.nodes[from]->b10->peer(n.nodes[1 - from]->name);
      if (!peer) return false;
      auto const request = transfers.size() + 1;
      grants.push_back(n.grant(1 - from, request, 4 * request, 4));
      transfers.push_back(n.write(from, *peer, 1 - from, request, 4 * request, 4));
      return true;
    };
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 0; i < 2; ++i)
        connecting.push_back(n.nodes[i]->b10->begin_connect(n.nodes[1 - i]->name, seconds(1)));
      // As soon as each side knows the other, and again while the next greetings are under way.
      bool wrote[2] = {};
      REQUIRE(n.until([&] {
        for (std::size_t i = 0; i < 2; ++i) wrote[i] = wrote[i] || write(i);
        return wrote[0] && wrote[1];
      }));
      n.advance(microseconds(random.below(60)));
    }
    for (auto& t : transfers) {
      REQUIRE(n.until([&] { return t.outcome().has_value(); }));
      INFO(t.outcome()->why);
      CHECK(t.outcome()->ok());
    }
    for (auto& g : grants) {
      auto const o = g.next({});
      CHECK((o && o->ok()));
    }
  }
}

TEST_CASE("A generation that a newer one has superseded is closed after a second without users",
          "[sim]") {
  struct Downs final : sim::Observer {
    void saw(sim::Event const& e) override { seen += e.what == sim::What::link_down; }
    unsigned seen = 0;
  } downs;
  SimNodes n;
  n.connect(0, 1);
  auto const to_b = n.connect(0, 1);
  n.network->timeline->journal.observer = &downs;
  n.advance(milliseconds(900));
  CHECK(downs.seen == 0);
  n.network->stop_peer("b");  // so that only one of them closes it, and the other is told
  n.advance(milliseconds(200));
  n.network->resume_peer("b");
  n.advance(milliseconds(10));
  CHECK(downs.seen > 0);
  auto g = n.grant(1, 1, 0, 4);
  auto t = n.write(0, to_b, 1, 1, 0, 4);
  REQUIRE(n.until([&] { return t.outcome().has_value(); }));
  CHECK(t.outcome()->ok());
  n.network->timeline->journal.observer = nullptr;
}

TEST_CASE(
    "A transfer that is tried again on another incarnation of its peer gets a name of that pair",
    "[sim][C17]") {
  // Which side gives out odd ids depends on both incarnations, so several are tried.
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SimNodes n(2, {.seed = seed});
    Names names(*n.network->timeline);
    auto const to_b = n.connect(0, 1);
    n.network->add({.fault = MessageFault::drop, .kind = MessageKind::control});
    auto t = n.write(0, to_b, 1, 1, 0, 4);
    n.advance(milliseconds(1));
    n.restart(1);
    auto g = n.grant(1, 1, 0, 4);
    REQUIRE(n.until([&] { return t.outcome().has_value(); }));
    CHECK(t.outcome()->ok());
    auto const to_a = n.connect(1, 0);
    for (std::uint64_t i = 1; i <= 4; ++i) {
      auto back = n.grant(0, i, 100, 4);
      auto u = n.write(1, to_a, 0, i, 100, 4);
      REQUIRE(n.until([&] { return u.outcome().has_value(); }));
      CHECK(u.outcome()->ok());
    }
    auto const& theirs = names.by[{sim::NodeId{2}, sim::NodeId{0}}];
    REQUIRE(theirs.size() == 4);
    for (auto const id : names.by[{sim::NodeId{0}, sim::NodeId{2}}])
      CHECK_FALSE(theirs.contains(id));
  }
}

TEST_CASE("Sources of a failed transfer stay held until the last of its gathers has ended",
          "[sim][C03]") {
  SimNodes n;
  auto const to_b = n.connect(0, 1);
  auto g = n.grant(1, 1, 0, 8);
  auto& copies = *n.nodes[0]->copies;
  copies.add({.fault = copy::CopyFault::slow});
  copies.add({.fault = copy::CopyFault::hold});
  auto t = n.write(0, to_b, 1, 1, 0, 8);  // two chunks, both being gathered
  REQUIRE(n.until([&] { return copies.pending() == 2; }));
  t.cancel();
  REQUIRE(n.until([&] { return t.outcome().has_value(); }));
  CHECK_FALSE(t.outcome()->sources_quiescent);
  REQUIRE(n.until([&] { return copies.pending() == 1; }));
  n.advance(milliseconds(20));
  CHECK_FALSE(t.sources_released());
  copies.release_all();
  n.advance(milliseconds(20));
  CHECK(copies.pending() == 0);
  CHECK(t.sources_released());
}

namespace {

/// Sixteen blocks, each to another place among the same sixteen: where a changed descriptor could
/// point and still be granted. True if all of them are where they belong.
struct Scattered {
  static constexpr std::size_t places[] = {5, 11, 0, 14, 3, 9, 12, 1, 7, 15, 2, 8, 13, 4, 10, 6};
  SimNodes<>& n;
  std::vector<LocalSpan> sources{}, blocks{};
  std::vector<RemoteSpan> destinations{};

  explicit Scattered(SimNodes<>& nodes) : n(nodes) {
    for (std::size_t i = 0; i < 16; ++i) {
      sources.push_back({n.nodes[0]->block(i), n.span});
      blocks.push_back({n.nodes[1]->block(places[i]), n.span});
      destinations.push_back(as_remote(blocks.back()));
    }
  }
  [[nodiscard]] bool landed() const {
    for (std::size_t i = 0; i < 16; ++i)
      if (!std::equal(sources[i].address, sources[i].address + n.span, blocks[i].address))
        return false;
    return true;
  }
};

}  // namespace

TEST_CASE("One bit changed in any frame never sends bytes astray", "[sim][C84]") {
  std::pair<MessageKind, std::uint64_t> const frames[] = {
      {MessageKind::control, 125}, {MessageKind::ready, 40}, {MessageKind::result, 43}};
  for (auto const& [kind, bytes] : frames) {
    for (std::uint64_t bit = 0; bit < 8 * bytes; ++bit) {
      SimNodes n;
      auto const to_b = n.connect(0, 1);
      Scattered const spans(n);
      auto g = n.nodes[1]->b10->grant(RequestId{1}, spans.blocks, seconds(1));
      auto const before = n.nodes[1]->pool;
      n.network->add({.fault = MessageFault::corrupt, .kind = kind, .at = bit});
      auto t = n.nodes[0]->b10->write(to_b, {.request = RequestId{1},
                                             .sources = spans.sources,
                                             .destinations = spans.destinations,
                                             .deadline = milliseconds(5)});
      REQUIRE(n.until([&] { return t.outcome().has_value(); }));
      auto const o = g.next({});
      bool const landed = o && o->ok();
      CHECK((!t.outcome()->ok() || landed));
      if (landed) CHECK(spans.landed());
      CHECK(
          std::equal(before.begin() + 16 * 256, before.end(), n.nodes[1]->pool.begin() + 16 * 256));
    }
  }
}
