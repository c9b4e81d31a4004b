// b10::Agent over Loopback: the surface that engines with sessions of their own plug in.
#include <b10/session/agent.hpp>

#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;
using Catch::Contains;

static_assert(TransferAgent<Agent<Node<>>>);

namespace {

std::vector<std::string> const from_a{"a"};

struct Agents : TwoNodes<> {
  Agent<Node<>> sender{*a, {.name = "a"}};
  Agent<Node<>> receiver{*b, {.name = "b", .on_write = [this](RequestId r, bool ok) {
                                written.emplace_back(to_integer(r), ok);
                                if (throws) throw std::runtime_error("listener");
                              }}};
  std::vector<std::pair<std::uint64_t, bool>> written;
  bool throws = false;

  void load() {
    sender.load_remote("b", receiver.local_descriptor());
    settle();
    REQUIRE(sender.reach("b") == Reach::connected);
  }
  Submission<HostEvent> submission(std::uint64_t request, std::size_t first, std::size_t count) {
    from = sources(first, count);
    to = remote(blocks(first, count));
    return {.sources = from,
            .destinations = to,
            .remote = "b",
            .request = RequestId{request},
            .deadline = seconds(1)};
  }
  std::vector<LocalSpan> from;
  std::vector<RemoteSpan> to;
};

}  // namespace

TEST_CASE("An agent's write lands under an expectation, and its pages come back as a proof",
          "[session][agent]") {
  Agents x;
  x.load();
  auto e = x.receiver.expect(RequestId{7}, x.blocks(0, 6), from_a, seconds(1000));
  CHECK(x.receiver.active_receives() == 1);
  auto const s = x.sender.submit(x.submission(7, 0, 6));
  CHECK(s.last_status() == "in progress");
  CHECK_FALSE(s.is_completed());
  x.settle();
  CHECK(s.is_completed());
  CHECK(s.last_status() == "landed, 1536 bytes");
  CHECK(e.landed_bytes() == 1536);
  CHECK(x.written == std::vector<std::pair<std::uint64_t, bool>>{{7, true}});
  auto const proof = e.revoke({});
  REQUIRE(proof);
  CHECK(proof->spans() == x.blocks(0, 6));
  CHECK_FALSE(e.revoke({}));
  CHECK(x.receiver.active_receives() == 0);
  CHECK(x.exactly(0, 6));
}

TEST_CASE("submit refuses what can never work, naming the index", "[session][agent]") {
  Agents x;
  x.load();
  auto s = x.submission(1, 0, 3);
  s.op = AgentOp::read;
  CHECK_THROWS_WITH(x.sender.submit(s), Contains("READ is not supported"));
  s = x.submission(1, 0, 3);
  x.to[2].bytes = 9;
  CHECK_THROWS_WITH(x.sender.submit(s), Contains("pair 2") && Contains("256") && Contains("9"));
  s.destinations = s.destinations.first(2);
  CHECK_THROWS_WITH(x.sender.submit(s), Contains("3 sources and 2 destinations"));
  s = x.submission(1, 0, 3);
  s.remote = "nobody";
  CHECK_THROWS_WITH(x.sender.submit(s), Contains("\"nobody\" is not loaded"));
  CHECK(x.a->metrics().sent.started.get() == 0);
}

TEST_CASE("An empty submission has succeeded at once, without traffic or id", "[session][agent]") {
  Agents x;
  auto const s = x.sender.submit({.remote = "nobody"});
  CHECK(s.is_completed());
  CHECK(s.wait(Duration{}) == Progressing::succeeded);
  CHECK(x.a->metrics().sent.started.get() == 0);
}

TEST_CASE("Device sources without request id or event are a failed status, nothing is sent",
          "[session][agent]") {
  Agents x;
  x.load();
  auto s = x.submission(0, 0, 1);
  s.ready = HostEvent{};
  CHECK(x.sender.submit(s).state() == Progressing::failed);
  s = x.submission(3, 0, 1);
  x.from[0].device = Device{0};
  auto const status = x.sender.submit(s);
  CHECK(status.state() == Progressing::failed);
  CHECK_THAT(status.last_status(), Contains("without a source-ready event"));
  CHECK(x.a->metrics().sent.started.get() == 0);
}

TEST_CASE("A recorded source-ready event holds the gather until it fires", "[session][agent]") {
  Agents x;
  x.load();
  auto e = x.receiver.expect(RequestId{4}, x.blocks(0, 2), from_a, seconds(1000));
  auto event = HostEvent::create();
  x.sender.record_source_ready(RequestId{4}, event);
  auto const s = x.sender.submit(x.submission(4, 0, 2));
  x.settle();
  CHECK(s.wait(Duration{}) == Progressing::in_progress);
  CHECK(x.untouched());
  event.fire();
  x.settle();
  CHECK(s.is_completed());
  x.sender.record_source_ready(RequestId{5}, HostEvent::create());
  x.sender.discard_source_ready(RequestId{5});
  auto e5 = x.receiver.expect(RequestId{5}, x.blocks(2, 2), from_a, seconds(1000));
  auto const s5 = x.sender.submit(x.submission(5, 2, 2));
  x.settle();
  CHECK(s5.is_completed());
}

TEST_CASE("The array form moves the same bytes", "[session][agent]") {
  Agents x;
  x.load();
  auto e = x.receiver.expect(RequestId{8}, x.blocks(3, 2), from_a, seconds(1000));
  std::vector<std::uint64_t> from, to, bytes;
  for (auto const& s : x.sources(3, 2)) from.push_back(as_remote(s).address);
  for (auto const& s : x.blocks(3, 2)) to.push_back(as_remote(s).address), bytes.push_back(s.bytes);
  std::vector<Device> const devices(2, Device::host);
  Submission<HostEvent> const how{.remote = "b", .request = RequestId{8}, .deadline = seconds(1)};
  auto const s = x.sender.submit(how, {from, bytes, devices}, {to, bytes, devices});
  x.settle();
  CHECK(s.is_completed());
  CHECK(x.exactly(3, 2));
  CHECK_THROWS_WITH(x.sender.submit(how, {from, {}, devices}, {to, bytes, devices}),
                    Contains("2 addresses, 0 sizes"));
}

TEST_CASE("cancel claims nothing quiet that is not", "[session][agent]") {
  Agents x;
  x.load();
  x.held_a->hold(CopyKind::gather);
  auto e = x.receiver.expect(RequestId{9}, x.blocks(0, 2), from_a, seconds(1000));
  auto const s = x.sender.submit(x.submission(9, 0, 2));
  x.settle();
  s.cancel();
  x.settle();
  CHECK_FALSE(s.sources_released());
  x.held_a->release_all();
  x.advance(milliseconds(10));
  CHECK(s.sources_released());
  CHECK(s.state() == Progressing::failed);
  CHECK(x.untouched());
}

TEST_CASE("A receive is cancelled by its request: the listener is not told", "[session][agent]") {
  Agents x;
  x.load();
  auto e = x.receiver.expect(RequestId{9}, x.blocks(0, 2), from_a, seconds(1000));
  auto const event = HostEvent::create();
  auto s = x.submission(9, 0, 2);
  s.ready = event;
  auto const status = x.sender.submit(s);
  x.settle();
  auto const proof = x.receiver.cancel_receive(RequestId{9}, {});
  REQUIRE(proof);
  CHECK_FALSE(x.receiver.cancel_receive(RequestId{9}, {}));
  CHECK_FALSE(x.receiver.cancel_receive(RequestId{77}, {}));
  x.settle();
  CHECK(status.state() == Progressing::failed);
  CHECK(x.written.empty());
}

TEST_CASE("The listener hears failures, and what it throws is contained", "[session][agent]") {
  Agents x;
  x.throws = true;
  x.load();
  auto e = x.receiver.expect(RequestId{9}, x.blocks(0, 2), from_a, seconds(1000));
  x.held_b->fail_all(CopyKind::scatter);
  auto const s = x.sender.submit(x.submission(9, 0, 2));
  x.settle();
  CHECK(s.state() == Progressing::failed);
  CHECK(x.written == std::vector<std::pair<std::uint64_t, bool>>{{9, false}});
  CHECK(e.failure());
}

TEST_CASE("Registration refuses empty lists and memory in use", "[session][agent]") {
  Agents x;
  CHECK_THROWS_WITH(x.receiver.register_memory({}), Contains("empty list"));
  CHECK_THROWS_WITH(x.receiver.deregister_memory({}), Contains("empty list"));
  std::vector<std::byte> more(1024);
  std::vector<LocalSpan> const region{{more.data(), 512}};
  x.receiver.register_memory(region);
  auto e = x.receiver.expect(RequestId{2}, region, from_a, seconds(1000));
  CHECK_THROWS_AS(x.receiver.deregister_memory(region), Error);
  REQUIRE(e.revoke({}));
  // All or none: the second one overlaps.
  std::vector<LocalSpan> const bad{{more.data() + 512, 256}, {more.data(), 256}};
  CHECK_THROWS_AS(x.receiver.register_memory(bad), Error);
  std::vector<LocalSpan> const again{{more.data() + 512, 256}};
  x.receiver.register_memory(again);
  x.receiver.deregister_memory(region);
}

TEST_CASE("check_remote answers by what the peer has registered", "[session][agent]") {
  Agents x;
  std::vector<std::byte> more(1024);
  std::vector<LocalSpan> const region{{more.data(), 512}};
  CHECK_FALSE(x.sender.check_remote("b", x.remote(region)));
  x.load();
  CHECK_FALSE(x.sender.check_remote("b", x.remote(region)));
  x.receiver.register_memory(region);
  x.sender.load_remote("b", x.receiver.local_descriptor());
  CHECK(x.sender.check_remote("b", x.remote(region)));
  std::vector<RemoteSpan> over{as_remote(region[0])};
  over[0].bytes += 1;
  CHECK_FALSE(x.sender.check_remote("b", over));
  over[0] = {~0ull, 2, Device::host};
  CHECK_FALSE(x.sender.check_remote("b", over));
}

TEST_CASE("Loading is idempotent: a descriptor that does not fit is refused naming both",
          "[session][agent]") {
  Agents x;
  x.load();
  auto const bytes = x.receiver.local_descriptor();
  x.sender.load_remote("b", bytes);
  x.settle();
  CHECK(x.a->metrics().links_opened.get() == 1);
  CHECK_THROWS_WITH(x.sender.load_remote("c", bytes), Contains("\"c\" is one of \"b\""));
  auto d = decode_agent_descriptor(bytes);
  auto const refused = [&](char const* what) {
    CHECK_THROWS_WITH(x.sender.load_remote("b", encode_agent_descriptor(d)), Contains(what));
  };
  d.protocol = 9;
  refused("protocol differs: 1 here, 9 at the peer");
  d.protocol = 1;
  d.version = 4;
  refused("descriptor version differs: 1 here, 4 at the peer");
  d.version = 1;
  d.features = 0;
  refused("upgrade");
  x.sender.invalidate_remote("b");
  x.sender.invalidate_remote("b");
  CHECK(x.sender.reach("b") == Reach::unknown);
}

TEST_CASE("Descriptors ignore unknown keys and refuse anything malformed", "[session][agent]") {
  AgentDescriptor d{.name = "n", .address = "h:1", .features = 1, .regions = {{16, 32}}};
  auto bytes = encode_agent_descriptor(d);
  CHECK(decode_agent_descriptor(bytes) == d);
  auto longer = bytes;
  for (unsigned const b : {99u, 0u, 1u, 0u, 0u, 0u, 5u}) longer.push_back(std::byte(b));
  CHECK(decode_agent_descriptor(longer) == d);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    std::span<std::byte const> const cut(bytes.data(), n);
    try {
      (void)decode_agent_descriptor(cut);  // cut between two keys it may be whole
    } catch (Error const&) {
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (unsigned const b : {0u, 1u, 0x7fu, 0xffu}) {
      auto broken = bytes;
      broken[i] = std::byte(b);
      try {
        (void)decode_agent_descriptor(broken);
      } catch (Error const&) {
      }
    }
  CHECK_THROWS_WITH(decode_agent_descriptor({}), Contains("missing"));
}

TEST_CASE("Notifications go both ways, once each, and only to remotes that are loaded",
          "[session][agent]") {
  Agents x;
  x.load();
  std::vector<std::byte> const hello(5, std::byte{'h'}), answer(3, std::byte{'a'});
  x.sender.notify("b", hello);
  x.settle();
  auto const heard = x.receiver.notifications();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].from == "a");
  CHECK(heard[0].bytes == hello);
  CHECK(x.receiver.notifications().empty());
  CHECK_THROWS_WITH(x.receiver.notify("a", answer), Contains("not loaded"));
  x.receiver.load_remote("a", x.sender.local_descriptor());
  x.settle();
  x.receiver.notify("a", answer);
  x.settle();
  REQUIRE(x.sender.notifications().size() == 1);
  x.sender.shutdown(Duration{});
  CHECK_THROWS_WITH(x.sender.notify("b", hello), Contains("shut down"));
}

TEST_CASE("After shutdown each call says so, and shutdown again does nothing", "[session][agent]") {
  Agents x;
  x.load();
  x.sender.shutdown(Duration{});
  x.sender.shutdown(Duration{});
  CHECK_THROWS_WITH(x.sender.submit(x.submission(1, 0, 1)), Contains("shut down"));
  CHECK_THROWS_WITH(x.sender.local_descriptor(), Contains("shut down"));
  CHECK_THROWS_WITH(x.sender.load_remote("b", {}), Contains("shut down"));
}

TEST_CASE("Shutdown drains concurrent submitters", "[session][agent]") {
  Agents x;
  x.load();
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      auto const from = x.sources(0, 1);
      auto const to = x.remote(x.blocks(0, 1));
      for (;;) try {
          (void)x.sender.submit({.sources = from,
                                 .destinations = to,
                                 .remote = "b",
                                 .request = RequestId{5},
                                 .deadline = seconds(1)});
        } catch (Error const& e) {
          if (e.reason() == Reason::shutting_down) break;
        }
      ++refused;
    });
  x.sender.shutdown(Duration{});
  for (auto& t : threads) t.join();
  CHECK(refused == 3);
}

TEST_CASE("C86 only the peers that an expectation names can write under it",
          "[session][agent][C86]") {
  Agents x;
  x.load();
  std::vector<std::string> const other{"c"};
  auto e = x.receiver.expect(RequestId{7}, x.blocks(0, 2), other, seconds(1000));
  auto const s = x.sender.submit(x.submission(7, 0, 2));
  x.settle();
  CHECK(s.state() == Progressing::failed);
  CHECK_THAT(s.last_status(), Contains("request 7 is not wanted from peer \"a\""));
  auto const one_above = x.sender.submit(x.submission(8, 0, 2));
  x.settle();
  CHECK_THAT(one_above.last_status(), Contains("request 8 has no grant here"));
  CHECK(x.untouched());
  CHECK(x.b->metrics().staging_quarantined.get() == 0);
}

TEST_CASE("An expectation that is no longer wanted refuses the write, also when the check throws",
          "[session][agent]") {
  enum class Answer { yes, no, thrown };
  for (auto const answer : {Answer::yes, Answer::no, Answer::thrown}) {
    Agents x;
    x.load();
    Agent<Node<>> asking(*x.b, {.name = "b", .wanted = [answer](RequestId r) {
                                  if (answer == Answer::thrown) throw std::runtime_error("lost");
                                  return answer == Answer::yes && r == RequestId{7};
                                }});
    auto e = asking.expect(RequestId{7}, x.blocks(0, 2), from_a, seconds(1000));
    auto const s = x.sender.submit(x.submission(7, 0, 2));
    x.settle();
    CHECK(s.is_completed() == (answer == Answer::yes));
    CHECK(x.untouched() == (answer != Answer::yes));
  }
}
