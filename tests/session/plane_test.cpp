// The native plane's laws, for both of its models, and the session messages that it carries.
#include <b10/native_plane.hpp>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <b10/native_plane/in_process.hpp>
#if __has_include(<zmq.hpp>)
#include <b10/native_plane/zmq.hpp>
#endif
#include <b10/session/messages.hpp>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;

namespace {

std::vector<std::byte> bytes(std::string const& text) {
  auto const view = as_byte_view(text);
  return {view.begin(), view.end()};
}

struct InProcessPair {
  std::shared_ptr<native_plane::InProcess::Hub> hub =
      std::make_shared<native_plane::InProcess::Hub>();
  native_plane::InProcess a{{hub, "a", 4}}, b{{hub, "b", 4}};
};
#if __has_include(<zmq.hpp>)
struct ZmqPair {
  native_plane::Zmq a{{}}, b{{}};
};
#endif

template <class P>
std::vector<std::byte> next(P& plane) {
  for (int i = 0; i < 100; ++i) {
    if (auto m = plane.receive()) return *m;
    plane.wait(milliseconds(100));
  }
  return {};
}

template <class Pair>
void plane_laws() {
  Pair x;
  auto const route = x.a.open(x.b.address());
  SECTION("messages arrive whole and in order") {
    for (auto const* text : {"one", "", "three"}) REQUIRE(x.a.send(route, bytes(text)));
    CHECK(next(x.b) == bytes("one"));
    CHECK(next(x.b).empty());
    CHECK(next(x.b) == bytes("three"));
    CHECK_FALSE(x.b.receive());
    CHECK_FALSE(x.a.receive());
  }
  SECTION("a closed route and one to nobody cost nothing") {
    x.a.close(route);
    CHECK_FALSE(x.a.send(route, bytes("late")));
    x.a.close(route);
  }
  SECTION("wake ends a wait, also one before it") {
    x.b.wake();
    x.b.wait(seconds(100));
    std::thread waker([&] { x.b.wake(); });
    x.b.wait(seconds(100));
    waker.join();
  }
  SECTION("a message too long is refused, not sent") {
    std::vector<std::byte> const huge(plane_message_bytes_max + 1);
    CHECK_FALSE(x.a.send(route, huge));
  }
}

RequestData request_data() {
  RequestData m;
  m.request = RequestId{17};
  m.slice = ReceiverSliceId{3};
  m.prompt_tokens = 100;
  m.remaining = seconds(2);
  m.groups = {{GroupId{1}, BlockOrdinal{2}, {absent, SlotId{5}}}, {GroupId{0}, {}, {}}};
  m.state = {{GroupId{2}, SlotId{9}}};
  m.aux = RemoteSpan{4096, 64, Device{1}};
  return m;
}
RegisterPeer register_peer() {
  RegisterPeer m;
  m.answer_wanted = true;
  m.plane_address = "tcp://h:1";
  m.agent_descriptor = bytes("agent");
  m.shape.name = "prefill-0";
  m.shape.place = {2, 1};
  m.shape.settings = {{"pipelined", "1"}};
  GroupShape g;
  g.geometry.layers = {LayerId{0}, LayerId{7}};
  g.geometry.section_bytes = {8};
  g.pool = {1 << 20, 4096, 12, Device{0}};
  m.shape.groups = {g, g};
  return m;
}
std::vector<Message> all_messages() {
  KvResult r{RequestId{17}, 1, SenderSliceId{5}, ReceiverSliceId{3}, true, ResultStatus::failed, 77,
             "why"};
  return {register_peer(),
          RefusePeer{"element bytes differs: 2 here, 1 at the peer"},
          request_data(),
          r,
          AuxResult{RequestId{17}, ReceiverSliceId{3}, ResultStatus::ok, 64, ""},
          CancelSession{RequestId{17}, true}};
}

}  // namespace

TEST_CASE("InProcess keeps the laws of a native plane", "[session][plane]") {
  plane_laws<InProcessPair>();
}

TEST_CASE("InProcess refuses what does not fit into the queue", "[session][plane]") {
  InProcessPair x;
  auto const route = x.a.open("b");
  for (int i = 0; i < 4; ++i) CHECK(x.a.send(route, bytes("m")));
  CHECK_FALSE(x.a.send(route, bytes("m")));
  (void)x.b.receive();
  CHECK(x.a.send(route, bytes("m")));
}

#if __has_include(<zmq.hpp>)
TEST_CASE("Zmq keeps the laws of a native plane", "[session][plane][zmq]") {
  plane_laws<ZmqPair>();
}

TEST_CASE("Zmq names the address that it cannot use", "[session][plane][zmq]") {
  native_plane::Zmq a{{}};
  CHECK_THROWS_WITH(a.open("nonsense"), Catch::Contains("\"nonsense\""));
  CHECK_THROWS_WITH(native_plane::Zmq({"tcp://256.0.0.1:1"}), Catch::Contains("tcp://256.0.0.1:1"));
  // A peer that is not there delays neither a send nor the end.
  auto const route = a.open("tcp://127.0.0.1:1");
  CHECK(a.send(route, bytes("to nobody")));
}
#endif

TEST_CASE("Each session message decodes to what was encoded", "[session][messages]") {
  for (auto const& m : all_messages()) {
    auto const e = decode(encode(NodeId{42}, m));
    REQUIRE(e);
    CHECK(e->from == NodeId{42});
    CHECK(e->message == m);
  }
}

TEST_CASE("R8 sender and receiver slice ids are two fields of two types", "[session][R8]") {
  static_assert(!std::is_same_v<SenderSliceId, ReceiverSliceId>);
  static_assert(!std::is_convertible_v<SenderSliceId, ReceiverSliceId>);
  static_assert(std::is_same_v<decltype(KvResult::sender_slice), SenderSliceId>);
  static_assert(std::is_same_v<decltype(KvResult::receiver_slice), ReceiverSliceId>);
  auto const e = decode(encode(NodeId{1}, all_messages()[3]));
  CHECK(std::get<KvResult>(e->message).sender_slice == SenderSliceId{5});
  CHECK(std::get<KvResult>(e->message).receiver_slice == ReceiverSliceId{3});
}

TEST_CASE("A message that is cut, longer or damaged is refused or harmless",
          "[session][messages]") {
  for (auto const& m : all_messages()) {
    auto const good = encode(NodeId{42}, m);
    for (std::size_t n = 0; n < good.size(); ++n)
      CHECK_FALSE(decode(std::span<std::byte const>(good).first(n)));
    auto longer = good;
    longer.push_back(std::byte{0});
    CHECK_FALSE(decode(longer));
    for (std::size_t i = 0; i < good.size(); ++i)
      for (unsigned const b : {0x00u, 0x01u, 0x7fu, 0x80u, 0xffu}) {
        auto broken = good;
        broken[i] = std::byte(b);
        if (auto const e = decode(broken)) CHECK(encode(e->from, e->message) == broken);
      }
  }
}

TEST_CASE("A count that promises more than there is allocates nothing", "[session][messages]") {
  auto good = encode(NodeId{1}, RequestData{});
  // The count of groups stands behind request, slice, prompt and remaining.
  for (std::size_t i = 0; i < 4; ++i) good[16 + 8 + 4 + 8 + 8 + i] = std::byte{0xff};
  CHECK_FALSE(decode(good));
}

TEST_CASE("Random bytes never decode to something that encodes otherwise", "[session][messages]") {
  std::uint64_t random = 99;
  auto const samples = all_messages();
  for (int round = 0; round < 20'000; ++round) {
    auto const draw = [&] { return random = random * 6364136223846793005u + 1442695040888963407u; };
    auto frame = encode(NodeId{1}, samples[(draw() >> 40) % samples.size()]);
    for (auto n = 1 + (draw() >> 40) % 6; n > 0; --n)
      frame[(draw() >> 33) % frame.size()] = std::byte(draw() >> 56);
    if (auto const e = decode(frame)) CHECK(encode(e->from, e->message) == frame);
  }
}
