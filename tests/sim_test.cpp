// What transport::Sim and copy::Fake promise: the laws of their axes, and the rude behaviour of UCX
// that the pipelines have to survive (design page "What UCX really does", sections 1 and 2).
#include <b10/transport/sim.hpp>

#include <b10/copy/fake.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laws/copy_engine.hpp"
#include "laws/transport.hpp"
#include "support/catch.hpp"
#include "support/host_copy_fixture.hpp"

using namespace b10;

namespace {

Hello hello(char const* name, std::uint64_t incarnation) {
  Hello h;
  h.name = name;
  h.incarnation = {incarnation, incarnation * 77};
  return h;
}

template <transport::sim::LongMessages Long>
struct SimFixture {
  using Transport = transport::Sim;
  std::shared_ptr<Transport::Network> network =
      std::make_shared<Transport::Network>(Transport::Network::Options{
          .seed = 7, .long_messages = Long, .clock = transport::sim::Clock::by_progress});
  Transport left_{{network, "left"}, hello("left", 1)};
  Transport right_{{network, "right"}, hello("right", 2)};
  Transport& left() { return left_; }
  Transport& right() { return right_; }
};

}  // namespace

TEST_CASE("transport::Sim obeys the transport laws", "[sim]") {
  laws::transport<SimFixture<transport::sim::LongMessages::rendezvous>>();
}
TEST_CASE("transport::Sim obeys the transport laws with long messages eager", "[sim]") {
  laws::transport<SimFixture<transport::sim::LongMessages::eager>>();
}
TEST_CASE("transport::Sim obeys the transport laws with long messages of either kind", "[sim]") {
  laws::transport<SimFixture<transport::sim::LongMessages::either>>();
}

namespace {

using transport::sim::LongMessages;
using transport::sim::MessageFault;
using Network = transport::Sim::Network;

constexpr std::size_t long_bytes = 100'000;

/// Two connected nodes whose clock moves by hand.
struct Pair {
  explicit Pair(LongMessages kind = LongMessages::rendezvous, std::uint64_t seed = 3)
      : network(std::make_shared<Network>(Network::Options{
            .seed = seed, .long_messages = kind, .pieces_min = 4, .silence = milliseconds(50)})) {
    left.emplace(transport::Sim::Options{network, "left"}, hello("left", 1));
    right.emplace(transport::Sim::Options{network, "right"}, hello("right", 2));
    l.emplace(*left);
    r.emplace(*right);
    left->connect(ConnectId{1}, "right", left->now() + seconds(1));
    settle();
    REQUIRE(l->links.size() == 1);
    REQUIRE(r->links.size() == 1);
  }
  void turn() {
    if (!network->stopped("left") && l) l->progress();
    if (!network->stopped("right") && r) r->progress();
  }
  /// Until nothing is under way.
  void settle() {
    do turn();
    while (network->timeline->next() <= network->now() + milliseconds(20) &&
           network->timeline->step());
    turn();
  }
  void step() {
    network->timeline->step();
    turn();
  }
  /// A long message from left to right under tag 1, of which a part has landed.
  void send_half() {
    right_link().receive(Tag{1}, in.data(), in.size(), received);
    left_link().send(Tag{1}, out.data(), out.size(), sent);
    while (landed() == 0) step();
    REQUIRE(landed() < long_bytes);
    REQUIRE(received.pending());
  }
  [[nodiscard]] std::size_t landed() const {
    return static_cast<std::size_t>(std::count(in.begin(), in.end(), std::byte{7}));
  }
  transport::Sim::Link& left_link() { return l->link(); }
  transport::Sim::Link& right_link() { return r->link(); }

  std::vector<std::byte> out = std::vector<std::byte>(long_bytes, std::byte{7});
  std::vector<std::byte> in = std::vector<std::byte>(long_bytes);
  Operation sent, received;
  std::shared_ptr<Network> network;
  std::optional<transport::Sim> left, right;
  std::optional<laws::Node<transport::Sim>> l, r;
};

}  // namespace

TEST_CASE(
    "transport::Sim goes on writing into a receive after cancel and retire, until its link dies",
    "[sim]") {
  bool const dies = GENERATE(false, true);
  auto const kind = GENERATE(LongMessages::rendezvous, LongMessages::eager);
  Pair p(kind);
  p.send_half();
  p.right_link().cancel(p.received);
  CHECK(p.received.pending());  // it has matched: asking in vain
  p.right_link().retire();
  p.turn();
  auto const before = p.landed();
  if (dies) p.r->links.clear();
  p.settle();
  CHECK(p.landed() == (dies ? before : long_bytes));
  CHECK(p.network->late_bytes() == (dies ? 0 : long_bytes - before));
}

TEST_CASE("transport::Sim freezes what a stopped peer was sending, and lands it when it goes on",
          "[sim][C53]") {
  Pair p;
  p.send_half();
  p.network->stop_peer("left");
  auto const before = p.landed();
  p.network->advance(milliseconds(49));
  p.turn();
  CHECK(p.landed() == before);
  CHECK(p.r->downs.empty());
  p.network->advance(milliseconds(2));
  p.turn();
  REQUIRE(p.r->downs.size() == 1);
  CHECK(p.r->downs[0].how == LinkDown::silent);
  p.right_link().cancel(p.received);
  p.right_link().retire();
  p.network->resume_peer("left");
  p.settle();
  CHECK(p.landed() == long_bytes);
  CHECK(p.l->downs.size() == 1);  // it learns that it was given up
}

TEST_CASE("transport::Sim leaves a long eager message of a killed peer half received for ever",
          "[sim][C08]") {
  Pair p(LongMessages::eager);
  p.send_half();
  p.network->kill_peer("left");
  p.settle();
  REQUIRE(p.r->downs.size() == 1);
  CHECK(p.r->downs[0].how == LinkDown::lost);
  p.right_link().cancel(p.received);
  p.right_link().retire();
  p.network->advance(seconds(100));
  p.turn();
  CHECK(p.received.pending());
  CHECK(p.landed() < long_bytes);
}

TEST_CASE("transport::Sim fails a rendezvous receive of a killed peer once its death is known",
          "[sim]") {
  Pair p;
  p.send_half();
  p.network->kill_peer("left");
  CHECK(p.received.pending());
  p.settle();
  CHECK(p.received.status() == OperationStatus::failed);
  CHECK(p.landed() < long_bytes);
}

TEST_CASE("transport::Sim lets nothing out of a killed peer, and its address can be taken at once",
          "[sim][C17]") {
  Pair p;
  p.network->kill_peer("left");
  std::array<std::byte, 8> late{};
  Operation op;
  p.left_link().send(Tag{1}, late.data(), 8, op);
  CHECK(op.status() == OperationStatus::failed);
  CHECK_FALSE(p.left_link().control(laws::frame("goodbye")));
  p.left_link().bye();
  p.settle();
  CHECK(p.r->controls.empty());
  REQUIRE(p.r->downs.size() == 1);
  CHECK(p.r->downs[0].how == LinkDown::lost);

  transport::Sim again({p.network, "left"}, hello("left", 9));
  laws::Node<transport::Sim> n(again);
  again.connect(ConnectId{5}, "right", again.now() + seconds(1));
  for (int i = 0; i < 20 && n.links.empty(); ++i) {
    p.step();
    n.progress();
  }
  REQUIRE(n.links.size() == 1);
  CHECK(n.infos[0].domain != p.l->infos[0].domain);  // another incarnation
}

TEST_CASE("transport::Sim keeps what nobody wanted for a later receive of the same tag", "[sim]") {
  Pair p;
  std::array<std::byte, 8> const stale{std::byte{1}};
  std::array<std::byte, 8> buffer{};
  Operation sent, first, second;
  p.right_link().receive(Tag{9}, buffer.data(), 8, first);
  p.right_link().cancel(first);
  CHECK(first.status() == OperationStatus::cancelled);
  p.left_link().send(Tag{9}, stale.data(), 8, sent);
  CHECK(sent.done());  // which says nothing about anybody having received it
  p.settle();
  p.network->advance(seconds(1000));
  p.right_link().receive(Tag{9}, buffer.data(), 8, second);
  p.settle();
  CHECK(second.done());
  CHECK(buffer == stale);
}

TEST_CASE("transport::Sim injects each message fault where a rule aims it", "[sim]") {
  Pair p;
  std::array<std::byte, 8> const out{std::byte{0x10}, std::byte{0x20}};
  std::array<std::byte, 8> in{}, other{};
  Operation sent, received, again;
  auto const under = [&](MessageFault fault, std::uint64_t at = 0) {
    p.network->add({.fault = fault, .delay = milliseconds(2), .at = at});
    p.right_link().receive(Tag{1}, in.data(), 8, received);
    p.left_link().send(Tag{1}, out.data(), 8, sent);
  };
  SECTION("drop") {
    under(MessageFault::drop);
    p.settle();
    CHECK(sent.status() == OperationStatus::ok);
    CHECK(received.pending());
    p.left_link().send(Tag{1}, out.data(), 8, again);  // the rule is used up
    p.settle();
    CHECK(received.done());
  }
  SECTION("delay") {
    under(MessageFault::delay);
    p.network->advance(milliseconds(1));
    p.turn();
    CHECK(received.pending());
    p.settle();
    CHECK(received.done());
  }
  SECTION("reorder lets a later message overtake") {
    under(MessageFault::reorder);
    p.right_link().receive(Tag{2}, other.data(), 8, again);
    Operation second;
    p.left_link().send(Tag{2}, out.data(), 8, second);
    p.network->advance(milliseconds(1));
    p.turn();
    CHECK(again.done());
    CHECK(received.pending());
    p.settle();
    CHECK(received.done());
  }
  SECTION("duplicate") {
    under(MessageFault::duplicate);
    p.settle();
    CHECK(received.done());
    p.right_link().receive(Tag{1}, other.data(), 8, again);
    p.settle();
    CHECK(again.done());
    CHECK(other == out);
  }
  SECTION("truncate") {
    under(MessageFault::truncate, 3);
    p.settle();
    CHECK(received.status() == OperationStatus::ok);
    CHECK(received.bytes() == 3);
  }
  SECTION("corrupt") {
    under(MessageFault::corrupt, 9);
    p.settle();
    CHECK(in[1] == std::byte{0x22});
  }
  SECTION("fail_post") {
    under(MessageFault::fail_post);
    CHECK(sent.status() == OperationStatus::failed);
  }
  SECTION("of a receive") {
    p.network->fail_receive(1);
    p.right_link().receive(Tag{1}, in.data(), 8, received);
    CHECK(received.status() == OperationStatus::failed);
  }
}

TEST_CASE("transport::Sim moves one node's clock ahead without the others'", "[sim][C74]") {
  Pair p;
  auto const before = p.right->now();
  p.network->jump_clock("left", seconds(86'400));
  CHECK(p.left->now() == before + seconds(86'400));
  CHECK(p.right->now() == before);
  p.left->wait(p.left->now() + milliseconds(3));
  CHECK(p.right->now() == before + milliseconds(3));
}

TEST_CASE("transport::Sim answers nobody whose greetings are lost", "[sim]") {
  Pair p;
  p.network->lose_greetings("right", 1);
  p.left->connect(ConnectId{2}, "right", p.left->now() + milliseconds(1));
  p.settle();
  REQUIRE(p.l->failures.size() == 1);
  CHECK(p.l->failures[0].first == ConnectId{2});
  CHECK(p.l->links.size() == 1);
}

TEST_CASE("transport::Sim breaks all links of a node and tells both sides", "[sim]") {
  Pair p;
  p.network->cut("right");
  p.settle();
  CHECK(p.l->downs.size() == 1);
  CHECK(p.r->downs.size() == 1);
}

TEST_CASE("A chooser orders what is due at one instant, but for things of one flow", "[sim]") {
  struct Seen final : sim::Timeline::Client {
    void on_time(std::uint32_t what, std::uint64_t) override { order += static_cast<char>(what); }
    std::string order;
  } seen;
  struct Last final : sim::Timeline::Chooser {
    std::size_t choose(std::size_t count) override { return counts.push_back(count), count - 1; }
    std::vector<std::size_t> counts;
  } last;
  sim::Timeline timeline(1);
  auto const client = timeline.join(seen);
  auto const soon = timeline.now() + microseconds(1), later = soon + microseconds(1);
  timeline.at(later, client, 'z', 0);
  for (char const c : {'a', 'b'}) timeline.at(soon, client, static_cast<unsigned>(c), 0);
  for (char const c : {'1', '2', '3'}) timeline.at(soon, client, static_cast<unsigned>(c), 0, 5);
  timeline.chooser = &last;
  REQUIRE(timeline.step());
  CHECK(seen.order == "1");
  CHECK(timeline.now() == soon);
  while (timeline.step()) {
  }
  CHECK(seen.order == "123baz");
  CHECK(last.counts == std::vector<std::size_t>{3, 3, 3, 2});
}

TEST_CASE("One seed is one simulation, event by event, and another seed is another", "[sim]") {
  auto const run = [](std::uint64_t seed) {
    Pair p(LongMessages::either, seed);
    std::array<Operation, 20> sent, received;
    std::vector<std::vector<std::byte>> in(20, std::vector<std::byte>(long_bytes));
    p.network->add({.fault = MessageFault::reorder, .skip = 4, .times = 3});
    for (std::size_t i = 0; i < 20; ++i) {
      p.right_link().receive(Tag{i + 1}, in[i].data(), long_bytes, received[i]);
      p.left_link().send(Tag{i + 1}, p.out.data(), long_bytes / (i + 1), sent[i]);
    }
    p.settle();
    return std::pair(p.network->timeline->journal.hash(), p.network->timeline->journal.count());
  };
  CHECK(run(1) == run(1));
  CHECK(run(2) == run(2));
  CHECK(run(1) != run(2));
}

TEST_CASE("copy::Fake obeys the copy engine laws", "[sim][copy]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const timeline = std::make_shared<sim::Timeline>(seed);
    auto const control =
        std::make_shared<copy::FakeControl>(timeline, copy::FakeControl::Options{});
    auto const finish = [&](copy::Fake& engine, copy::Fake::Event& event) {
      while (engine.query(event) == CopyState::pending) REQUIRE(timeline->step());
    };
    laws::copy_engine(support::host_copies<copy::Fake>({control}, finish));
    auto const another =
        std::make_shared<copy::FakeControl>(timeline, copy::FakeControl::Options{});
    laws::digesting_copy_engine(support::host_copies<copy::Fake>({another}, finish));
  }
}

namespace {

/// A scatter of two spans, with its engine and its timeline.
struct Scatter {
  std::shared_ptr<sim::Timeline> timeline = std::make_shared<sim::Timeline>(1);
  std::shared_ptr<copy::FakeControl> control = std::make_shared<copy::FakeControl>(
      timeline, copy::FakeControl::Options{.pieces_max = 4, .slots = 2});
  std::optional<copy::Fake> engine = copy::Fake({control}, 1024);
  std::vector<std::byte> from = std::vector<std::byte>(64, std::byte{7});
  std::vector<std::byte> to = std::vector<std::byte>(128);
  std::vector<LocalSpan> spans{{to.data(), 32}, {to.data() + 64, 32}};
  copy::Fake::Event event{};

  void start() { engine->scatter(from.data(), {spans, 0, 64}, event); }
  void run_out() {
    while (timeline->step()) {
    }
  }
  [[nodiscard]] auto moved() const { return std::count(to.begin(), to.end(), std::byte{7}); }
};

}  // namespace

TEST_CASE("copy::Fake moves bytes in time, whoever asks, and says what it may be touching",
          "[sim][copy]") {
  Scatter s;
  s.start();
  CHECK(s.moved() == 0);
  CHECK(s.control->touches(copy::Direction::scatter, s.to.data() + 95, 1));
  CHECK_FALSE(s.control->touches(copy::Direction::scatter, s.to.data() + 96, 1));
  CHECK_FALSE(s.control->touches(copy::Direction::gather, s.to.data(), 1));
  s.run_out();
  CHECK(s.moved() == 64);
  CHECK_FALSE(s.control->touches(copy::Direction::scatter, s.to.data(), 128));
  CHECK(s.engine->query(s.event) == CopyState::done);
  CHECK(s.engine->query(s.event) == CopyState::done);
}

TEST_CASE("copy::Fake holds a copy in the middle until it is released", "[sim][copy]") {
  Scatter s;
  s.control->add({.fault = copy::CopyFault::hold});
  s.start();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::pending);
  CHECK(s.moved() < 64);
  s.control->release_all();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::done);
  CHECK(s.moved() == 64);
}

TEST_CASE("copy::Fake stands still while its process is stopped, and goes on after",
          "[sim][copy][C53]") {
  Scatter s;
  s.start();
  s.control->freeze();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::pending);
  CHECK(s.moved() == 0);
  CHECK(s.control->touches_staging(s.from.data() + 63, 1));
  CHECK_FALSE(s.control->touches_staging(s.from.data() + 64, 1));
  s.control->thaw();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::done);
  CHECK(s.moved() == 64);
  CHECK_FALSE(s.control->touches_staging(s.from.data(), 64));
}

TEST_CASE("copy::Fake fails and refuses copies where a rule aims it", "[sim][copy]") {
  Scatter s;
  s.control->add(
      {.fault = copy::CopyFault::fail, .direction = copy::Direction::scatter, .skip = 1});
  s.control->add({.fault = copy::CopyFault::refuse, .skip = 1});
  s.start();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::done);
  s.start();
  s.run_out();
  CHECK(s.engine->query(s.event) == CopyState::failed);
  CHECK_THROWS_AS(s.start(), Error);
}

TEST_CASE("copy::Fake has no room beyond its slots, and its copies end with it", "[sim][copy]") {
  Scatter s;
  s.start();
  CHECK(s.engine->has_room());
  copy::Fake::Event second;
  s.engine->scatter(s.from.data(), {s.spans, 0, 64}, second);
  CHECK_FALSE(s.engine->has_room());
  s.engine.reset();
  s.run_out();
  CHECK(s.moved() == 0);
  CHECK(s.control->pending() == 0);
}
