// Every argument and every peer that cannot be right: a typed error that names value, limit and
// knob; nothing is written and the process goes on serving.
#include "support/two_nodes.hpp"

#include "support/catch.hpp"

using namespace b10;
using namespace support;

namespace {

/// The text and reason of the Error that `f` throws.
template <class F>
std::pair<Reason, std::string> error_of(F f) {
  try {
    f();
  } catch (Error const& e) {
    return {e.reason(), e.what()};
  }
  return {Reason::none, "no error"};
}
bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

template <class Nodes>
void still_serves(Nodes& n, PeerId peer, std::uint64_t request) {
  auto g = n.grant(request, 40, 4);
  auto t = n.write(peer, request, 40, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK(n.exactly(40, 4));
}

}  // namespace

TEST_CASE("Wrong arguments of write throw, naming index and value, and nothing is sent", "[bad]") {
  bool traffic = false;
  TwoNodes n;
  auto const peer = n.connect();
  n.network->set_filter([&](Passing const&) {
    traffic = true;
    return Fate::deliver;
  });
  auto from = n.sources(0, 4);
  auto to = n.remote(n.blocks(0, 4));
  auto attempt = [&] {
    return error_of([&] {
      (void)n.a->write(
          peer,
          {.request = RequestId{1}, .sources = from, .destinations = to, .deadline = seconds(1)});
    });
  };
  SECTION("counts differ") {
    to.pop_back();
    auto const [reason, text] = attempt();
    CHECK(reason == Reason::invalid_request);
    CHECK(contains(text, "4"));
    CHECK(contains(text, "3"));
  }
  SECTION("sizes differ") {
    to[2].bytes = 128;
    auto const [reason, text] = attempt();
    CHECK(reason == Reason::invalid_request);
    CHECK(contains(text, "2"));
    CHECK(contains(text, "256"));
    CHECK(contains(text, "128"));
  }
  SECTION("null source") {
    from[1].address = nullptr;
    CHECK(attempt().first == Reason::invalid_request);
  }
  SECTION("null destination") {
    to[1].address = 0;
    CHECK(attempt().first == Reason::invalid_request);
  }
  SECTION("a span that wraps around") {
    to[1].address = ~std::uint64_t{0} - 10;
    CHECK(attempt().first == Reason::invalid_request);
  }
  SECTION("unknown memory kind") {
    from[1].device = Device{-7};
    CHECK(attempt().first == Reason::invalid_request);
  }
  SECTION("request 0") {
    auto const [reason, text] = error_of([&] {
      (void)n.a->write(
          peer,
          {.request = RequestId{0}, .sources = from, .destinations = to, .deadline = seconds(1)});
    });
    CHECK(reason == Reason::invalid_request);
    CHECK(contains(text, "Write::request"));
  }
  SECTION("no deadline") {
    auto const [reason, text] = error_of([&] {
      (void)n.a->write(peer, {.request = RequestId{1}, .sources = from, .destinations = to});
    });
    CHECK(reason == Reason::invalid_request);
    CHECK(contains(text, "Write::deadline"));
  }
  n.settle();
  CHECK_FALSE(traffic);
  n.network->set_filter({});
  still_serves(n, peer, 77);
}

TEST_CASE("More than 2^16 chunks fail before anything is sent and name the knob", "[bad]") {
  TwoNodes n;
  auto const peer = n.connect();
  std::vector<LocalSpan> const from{{n.source.data(), (std::uint64_t{1} << 16) * slice_bytes + 1}};
  std::vector<RemoteSpan> const to{{0x10000, from[0].bytes}};
  auto t = n.a->write(
      peer, {.request = RequestId{1}, .sources = from, .destinations = to, .deadline = seconds(1)});
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::invalid_request);
  CHECK(contains(t.outcome()->why, "65536"));
  CHECK(contains(t.outcome()->why, "slic"));
  CHECK(n.a->metrics().sweeps.get() == 0);
  still_serves(n, peer, 77);
}

TEST_CASE("More spans than Config::spans_max are refused on either side", "[bad]") {
  SECTION("by the sender") {
    TwoNodes n(16, 16, [](auto& c) { c.spans_max = 3; });
    auto const peer = n.connect();
    auto const [reason, text] = error_of([&] { (void)n.write(peer, 1, 0, 4); });
    CHECK(reason == Reason::invalid_request);
    CHECK(contains(text, "spans_max"));
  }
  SECTION("by the receiver") {
    TwoNodes n(16, 16, [](auto& c) {
      if (c.name == "b") c.spans_max = 2;
    });
    auto const peer = n.connect();
    std::vector<LocalSpan> from;
    std::vector<RemoteSpan> to;
    for (std::size_t i = 0; i < 3; ++i) {  // not contiguous, so they are not merged
      from.push_back(n.sources(2 * i, 1)[0]);
      to.push_back(n.remote(n.blocks(2 * i, 1))[0]);
    }
    auto g = n.grant(1, 0, 10);
    auto t = n.a->write(
        peer,
        {.request = RequestId{1}, .sources = from, .destinations = to, .deadline = seconds(1)});
    n.settle();
    REQUIRE(t.outcome());
    CHECK(t.outcome()->reason == Reason::refused);
    CHECK(contains(t.outcome()->why, "3 spans, limit 2 (Config::spans_max)"));
    CHECK(n.untouched());
  }
}

TEST_CASE("An unknown peer fails the transfer and says to connect first", "[bad]") {
  TwoNodes n;
  (void)n.connect();
  auto t = n.write(PeerId{12}, 1, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::invalid_request);
  CHECK(contains(t.outcome()->why, "12"));
}

TEST_CASE("C09 destinations that are not granted are refused before READY with zero bytes written",
          "[bad][C09]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto write_to = [&](std::vector<RemoteSpan> to, std::uint64_t request = 1) {
    std::vector<LocalSpan> from;
    std::uint64_t at = 0;
    for (auto const& s : to) {
      from.push_back({n.source.data() + at, s.bytes});
      at += s.bytes;
    }
    auto t = n.a->write(peer, {.request = RequestId{request},
                               .sources = from,
                               .destinations = to,
                               .deadline = seconds(1)});
    n.settle();
    return *t.outcome();
  };
  auto g = n.grant(1, 0, 4);
  auto expected = Reason::refused;
  auto const base = reinterpret_cast<std::uint64_t>(n.pool.data());
  SECTION("one byte past the pool") {
    CHECK(write_to({{base + n.pool.size() - 255, 256}}).reason == Reason::refused);
  }
  SECTION("in the pool, but outside the grant") {
    CHECK(write_to({{base + 4 * 256, 256}}).reason == Reason::refused);
  }
  SECTION("one byte past the grant") {
    CHECK(write_to({{base + 1, 4 * 256}}).reason == Reason::refused);
  }
  SECTION("memory that was never registered") {
    CHECK(write_to({{reinterpret_cast<std::uint64_t>(&n), 64}}).reason == Reason::refused);
  }
  SECTION("another device") { CHECK(write_to({{base, 256, Device{0}}}).reason == Reason::refused); }
  SECTION("a request without a grant") {
    CHECK(write_to({{base, 256}}, 2).reason == Reason::refused);
  }
  SECTION("a request whose grant was taken back") {
    REQUIRE(g.revoke({}));
    expected = Reason::cancelled;
    CHECK(write_to({{base, 256}}).reason == Reason::cancelled);
  }
  CHECK(n.untouched());
  CHECK(n.b->metrics().received.ended[static_cast<std::size_t>(expected)].get() == 1);
  CHECK(n.b->metrics().staging_quarantined.get() == 0);
  still_serves(n, peer, 77);
}

TEST_CASE("C12 a request that is granted twice is refused, and the first goes on", "[bad][C12]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(5, 0, 4);
  CHECK(error_of([&] { (void)n.grant(5, 8, 4); }).first == Reason::invalid_request);
  CHECK(error_of([&] { (void)n.grant(0, 8, 4); }).first == Reason::invalid_request);
  auto t = n.write(peer, 5, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
}

TEST_CASE("C86 a grant for one peer refuses another", "[bad][C86]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.b->grant(RequestId{1}, n.blocks(0, 4), seconds(100), PeerId{42});
  auto t = n.write(peer, 1, 0, 4);
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::refused);
  CHECK(n.untouched());
}

TEST_CASE("Deregistering memory under a live grant is refused", "[bad]") {
  TwoNodes n;
  LocalSpan const all{n.pool.data(), n.pool.size()};
  auto g = n.grant(1, 0, 4);
  CHECK(error_of([&] { n.b->deregister_memory(all); }).first == Reason::refused);
  REQUIRE(g.revoke({}));
  n.b->deregister_memory(all);
  CHECK(error_of([&] { (void)n.grant(2, 0, 4); }).first == Reason::invalid_request);
}

TEST_CASE("C60 C80 nodes that differ in layout or policies are refused at connect with both values",
          "[bad][C80][C81]") {
  TwoNodes n(16, 16, [](auto& c) { c.layout = std::string("llama-tp8-") + c.name; });
  auto c = n.a->begin_connect("b", seconds(1));
  n.settle();
  CHECK(c.done());
  CHECK_FALSE(c.peer());
  CHECK(contains(c.error(), "llama-tp8-a"));
  CHECK(contains(c.error(), "llama-tp8-b"));
}

TEST_CASE("C11 a second live node of the same name is refused", "[bad][C11]") {
  TwoNodes n;
  auto const peer = n.connect();
  auto twin_config = n.config("a", 16, {});
  twin_config.transport.address = "a2";
  Node<> twin(twin_config);
  auto c = twin.begin_connect("b", seconds(1));
  for (int i = 0; i < 20; ++i) twin.progress(), n.settle();
  CHECK(c.done());
  CHECK_FALSE(c.peer());
  CHECK(contains(c.error(), "\"a\""));
  still_serves(n, peer, 7);
}

TEST_CASE("C41 connecting to nobody, to itself, or to one who never answers fails by the limit",
          "[bad][C41]") {
  TwoNodes n;
  auto nobody = n.a->begin_connect("nowhere", seconds(1));
  auto itself = n.a->begin_connect("a", seconds(1));
  n.settle();
  CHECK(contains(nobody.error(), "nowhere"));
  CHECK(itself.done());
  CHECK_FALSE(itself.peer());
  auto silent = n.a->begin_connect("b", seconds(1));
  for (int i = 0; i < 5; ++i) n.a->progress();
  CHECK_FALSE(silent.done());
  n.network->advance(milliseconds(1001));
  for (int i = 0; i < 5; ++i) n.a->progress();
  CHECK(silent.done());
  CHECK(contains(silent.error(), "\"b\""));
}

TEST_CASE("A configuration that cannot work names the knob", "[bad]") {
  TwoNodes n;
  auto c = n.config("c", 16, {});
  SECTION("no name") {
    c.name = "";
    CHECK(contains(error_of([&] { Node<> x(c); }).second, "Config::name"));
  }
  SECTION("no operation in flight") {
    c.max_in_flight_ops = 0;
    CHECK(contains(error_of([&] { Node<> x(c); }).second, "Config::max_in_flight_ops"));
  }
  SECTION("address in use") {
    c.transport.address = "a";
    CHECK(contains(error_of([&] { Node<> x(c); }).second, "in use"));
  }
  SECTION("staging larger than memory") {
    c.staging.buffers = std::uint64_t{1} << 40;
    CHECK(error_of([&] { Node<> x(c); }).first == Reason::invalid_request);
  }
}
