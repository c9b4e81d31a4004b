// Notifications: bytes that engines exchange beside transfers.
#include <b10/transceiver.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sim_nodes.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;
using Catch::Contains;

namespace {

std::span<std::byte const> bytes(std::string const& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::vector<std::string> texts(std::vector<Notification> const& notes) {
  std::vector<std::string> out;
  for (auto const& n : notes)
    out.push_back(n.from + ": " +
                  std::string(reinterpret_cast<char const*>(n.bytes.data()), n.bytes.size()));
  return out;
}
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("Notifications arrive once and in order, both ways, whatever transfers do", "[notes]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto const g = n.grant(1, 0, 10);
  auto const t = n.write(peer, 1, 0, 10);
  n.a->notify(peer, bytes("one"));
  n.a->notify(peer, bytes(""));
  n.a->notify(peer, bytes("three"));
  n.settle();
  CHECK(texts(n.b->notifications()) == Texts{"a: one", "a: ", "a: three"});
  CHECK(n.b->notifications().empty());
  CHECK(t.outcome()->ok());
  n.b->notify(*n.b->peer("a"), bytes("four"));
  n.settle();
  CHECK(texts(n.a->notifications()) == Texts{"b: four"});
}

TEST_CASE("A notification that comes twice is taken once", "[notes][sim]") {
  for (auto const delay : {microseconds(10), milliseconds(50)}) {
    SimNodes n;
    auto const peer = n.connect(0, 1);
    n.network->add({.fault = transport::sim::MessageFault::duplicate,
                    .kind = MessageKind::note,
                    .delay = delay});
    n.nodes[0]->b10->notify(peer, bytes("one"));
    n.nodes[0]->b10->notify(peer, bytes("two"));
    n.advance(milliseconds(100));
    CHECK(texts(n.nodes[1]->b10->notifications()) == Texts{"a: one", "a: two"});
    CHECK(n.nodes[1]->b10->metrics().duplicates_ignored.get() == 1);
  }
}

TEST_CASE("A notification has a limit, which its refusal names", "[notes]") {
  TwoNodes n;
  auto const peer = n.connect();
  n.a->notify(peer, bytes(std::string(wire::note_bytes_max, 'x')));
  n.settle();
  auto const notes = n.b->notifications();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].bytes.size() == wire::note_bytes_max);
  CHECK(notes[0].peer == *n.b->peer("a"));
  CHECK_THROWS_WITH(n.a->notify(peer, bytes(std::string(wire::note_bytes_max + 1, 'x'))),
                    Contains("3937 bytes") && Contains("3936"));
}

TEST_CASE("Notifications that nobody reads are bounded and counted", "[notes]") {
  TwoNodes n(16, 16, [](auto& c) { c.notes_max = 3; });
  auto const peer = n.connect();
  for (int i = 0; i < 5; ++i) n.a->notify(peer, bytes(std::to_string(i)));
  n.settle();
  CHECK(n.b->metrics().notes_dropped.get() == 2);
  CHECK(texts(n.b->notifications()) == Texts{"a: 0", "a: 1", "a: 2"});
  n.a->notify(peer, bytes("5"));
  n.settle();
  CHECK(texts(n.b->notifications()) == Texts{"a: 5"});
}

TEST_CASE("Without a live link a notification fails at once, and a new link carries the next",
          "[notes]") {
  TwoNodes n;
  auto const peer = n.connect();
  CHECK_THROWS_WITH(n.a->notify(PeerId{7}, bytes("x")), Contains("not connected"));
  n.network->cut("b");
  n.settle();
  CHECK_THROWS_AS(n.a->notify(peer, bytes("lost")), Error);
  CHECK(n.connect() == peer);
  n.a->notify(peer, bytes("again"));
  n.settle();
  CHECK(texts(n.b->notifications()) == Texts{"a: again"});
}
