// The same sessions over b10::Agent: real transceivers over Loopback.
#include <b10/session/agent.hpp>
#include <b10/session/session_node.hpp>

#include <memory>
#include <vector>

#include <b10/native_plane/in_process.hpp>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace b10::session;
using namespace support;

namespace {

using Sessions = SessionNode<Agent<Node<>>, InProcess>;

/// A slot is one span of the toy setup: 256 bytes.
struct Ranks : TwoNodes<> {
  Ranks() {
    b->register_memory({aux.data(), aux.size()});
    p.emplace(agent_a, plane_a, options("a", source));
    d.emplace(agent_b, plane_b, options("b", pool));
    d->register_peer("a");
    settle_all();
  }
  static NodeOptions options(char const* name, std::vector<std::byte>& memory) {
    NodeOptions o;
    o.shape.name = name;
    o.shape.aux_bytes = aux_bytes;
    o.shape.groups = {
        {small_group(),
         {reinterpret_cast<std::uint64_t>(memory.data()), span_bytes, 1024, Device::host}}};
    o.times = {seconds(10), seconds(100)};
    return o;
  }
  void settle_all() {
    for (int i = 0; i < 6; ++i) {
      settle();
      p->progress();
      d->progress();
    }
  }
  std::vector<SlotId> slots(std::uint32_t first, std::uint32_t count) {
    std::vector<SlotId> out;
    for (auto i = first; i < first + count; ++i) out.push_back(SlotId{i});
    return out;
  }
  Sessions::Tx::Slice slice(std::uint32_t id, std::uint32_t first, std::uint32_t end, bool last) {
    Sessions::Tx::Slice s;
    s.id = SenderSliceId{id};
    s.is_last = last;
    s.groups.push_back(cut(GroupId{0}, {BlockOrdinal{first}, BlockOrdinal{end}},
                           [](BlockOrdinal i) { return SlotId{100 + to_integer(i)}; }));
    return s;
  }
  RxSlice wanted(std::uint32_t first_slot, std::uint64_t prompt) {
    BlockTable t({4}, prompt);
    t.place(BlockOrdinal{0}, slots(first_slot, t.size()));
    return {{{GroupId{0}, t, {}}}, {}, LocalSpan{aux.data(), aux.size()}};
  }

  std::vector<std::byte> aux = std::vector<std::byte>(aux_bytes);
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  InProcess plane_a{{hub, "a"}}, plane_b{{hub, "b"}};
  Agent<Node<>> agent_a{*a, {.name = "a", .clock = [this] { return network->now(); }}};
  Agent<Node<>> agent_b{*b, {.name = "b", .clock = [this] { return network->now(); }}};
  std::optional<Sessions> p, d;
};

}  // namespace

TEST_CASE("Sessions over a transceiver land chunks and the AUX record exactly",
          "[session][loopback]") {
  Ranks x;
  auto rx = x.d->rx({RequestId{17}, ReceiverSliceId{4}, 40, {"a"}});
  rx->receive(x.wanted(200, 40));
  x.settle_all();
  auto tx = x.p->tx({RequestId{17}, 40, 1, true});
  tx->send(x.slice(0, 0, 4, false));
  auto event = HostEvent::create();
  auto last = x.slice(1, 4, 10, true);
  last.ready = event;
  tx->send(last);
  std::vector<std::byte> const token(5, std::byte{9});
  tx->send_aux(token);
  x.settle_all();
  CHECK(rx->status() == SessionStatus::transferring);
  event.fire();
  x.settle_all();
  CHECK(tx->why() == "");
  REQUIRE(tx->status() == SessionStatus::fully_transferred);
  REQUIRE(rx->status() == SessionStatus::fully_transferred);
  CHECK(rx->aux() == token);
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(std::memcmp(&x.source[(100 + i) * span_bytes], &x.pool[(200 + i) * span_bytes],
                      span_bytes) == 0);
  CHECK(x.pool[210 * span_bytes] == canary);
  auto const proof = rx->take_pages({});
  REQUIRE(proof);
  CHECK(proof->spans().size() == 11);
  CHECK(rx->close() == CloseAnswer::closed);
  CHECK(tx->close() == CloseAnswer::closed);
}

TEST_CASE(
    "A cancelled receiver's pages come back only after the last copy: the next request is exact",
    "[session][loopback][C01]") {
  Ranks x;
  x.held_b->hold(CopyKind::scatter);
  auto rx = x.d->rx({RequestId{1}, ReceiverSliceId{1}, 40, {"a"}});
  rx->receive(x.wanted(0, 40));
  auto tx = x.p->tx({RequestId{1}, 40});
  tx->send(x.slice(0, 0, 10, true));
  x.settle_all();
  CHECK(rx->cancel() == CancelAnswer::in_flight);
  CHECK_FALSE(rx->take_pages({}));
  CHECK(rx->close() == CloseAnswer::refused);
  x.settle_all();
  CHECK(tx->status() == SessionStatus::cancelled);
  x.held_b->release_all();
  x.held_b->run_freely(CopyKind::scatter);
  x.advance(milliseconds(10));
  CHECK(rx->take_pages({}));
  CHECK(rx->close() == CloseAnswer::closed);
  auto rx2 = x.d->rx({RequestId{2}, ReceiverSliceId{2}, 40, {"a"}});
  rx2->receive(x.wanted(0, 40));
  auto tx2 = x.p->tx({RequestId{2}, 40, 1, true});
  tx2->send(x.slice(0, 0, 10, true));
  tx2->send_aux({});
  x.settle_all();
  REQUIRE(rx2->status() == SessionStatus::fully_transferred);
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(std::memcmp(&x.source[(100 + i) * span_bytes], &x.pool[i * span_bytes], span_bytes) == 0);
}

TEST_CASE("A receiver's cancel that the transport tells first is a cancel, not an error",
          "[session][loopback]") {
  bool const pages_taken = GENERATE(false, true);
  Ranks x;
  auto rx = x.d->rx({RequestId{1}, ReceiverSliceId{1}, 40, {"a"}});
  rx->receive(x.wanted(0, 40));
  auto tx = x.p->tx({RequestId{1}, 40});
  tx->send(x.slice(0, 0, 4, false));
  x.settle_all();
  CHECK(rx->cancel() == CancelAnswer::drained);
  if (pages_taken) CHECK(rx->take_pages({}));
  REQUIRE(x.plane_a.receive());  // the cancel comes by the plane too late, or never
  tx->send(x.slice(1, 4, 10, true));
  x.settle_all();
  CHECK(tx->status() == SessionStatus::cancelled);
  CHECK(tx->close() == CloseAnswer::closed);
}
