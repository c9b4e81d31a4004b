#include <b10/transport/ucx.hpp>

#include <dlfcn.h>
#include <csignal>

#include "laws/transport.hpp"
#include "support/catch.hpp"
#include "support/raw_peer.hpp"

using namespace b10;
using support::RawPeer;
using transport::Ucx;
using namespace b10::transport::ucx;

namespace {

/// One node under attack.
struct Target {
  explicit Target(Options o = support::options())
      : transport(std::move(o), support::hello("target", 1)) {}
  Ucx transport;
  laws::Node<Ucx> node{transport};

  template <class Done>
  [[nodiscard]] bool until(Done done) {
    auto const limit = steady_now() + seconds(20);
    while (!done()) {
      node.progress();
      if (steady_now() > limit) return false;
    }
    return true;
  }
  /// The next frame that the raw peer gets; nullopt if it was closed instead.
  std::optional<Frame> answer(RawPeer& peer) {
    std::optional<Frame> frame;
    REQUIRE(until([&] {
      frame = peer.progress();
      return frame || peer.closed();
    }));
    return frame;
  }
  /// An honest peer gets in.
  bool welcomes() {
    Ucx friendly(support::options(), support::hello("friend", 2));
    laws::Node<Ucx> other(friendly);
    auto const links = node.links.size();
    friendly.connect(ConnectId{1}, transport.address(), friendly.now() + seconds(15));
    bool const met = until([&] {
      other.progress();
      return !other.failures.empty() || (!other.links.empty() && node.links.size() > links);
    });
    return met && other.failures.empty();
  }
};

std::string failure_of(Target& target, Ucx& client) {
  laws::Node<Ucx> node(client);
  client.connect(ConnectId{1}, target.transport.address(), client.now() + seconds(15));
  REQUIRE(target.until([&] {
    node.progress();
    return !node.failures.empty() || !node.links.empty();
  }));
  return node.failures.empty() ? "" : node.failures[0].second;
}

bool contains(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string error_of(Options o, Hello h = support::hello("x", 1)) {
  try {
    Ucx t(std::move(o), std::move(h));
  } catch (Error const& e) {
    return e.what();
  }
  return {};
}

/// Goes through the whole handshake by hand and then does as it likes.
struct InsidePeer {
  explicit InsidePeer(Target& t, Generation floor = {}) : target(&t), raw(t.transport.address()) {
    raw.greet();
    raw.prove(*t.answer(raw));
    auto const identify = t.answer(raw);
    REQUIRE(identify);
    hello = support::hello("inside", 3);
    hello.transport = t.transport.local().transport;
    state = std::make_unique<LinkState>(context, LinkId{1}, raw.keys->control(Role::client),
                                        raw.keys->control(Role::server));
    raw.put(FrameType::offer,
            Offer{milliseconds(10), floor, hello, state->worker->address()}.encode());
    answer = t.answer(raw);
  }
  void knock() {
    REQUIRE(answer->type == FrameType::accept);
    state->connect(Accept::decode(answer->body)->worker);
    raw.put(FrameType::confirm);
    REQUIRE(target->until([&] {
      raw.progress();
      state->worker->progress();
      return state->worker->sink_unexpected() != 0;
    }));
  }
  void connect() {
    knock();
    REQUIRE(state->sender.send(*state->worker, {}));
    REQUIRE(target->until([&] {
      state->worker->progress();
      return !target->node.links.empty();
    }));
  }
  Target* target;
  RawPeer raw;
  Hello hello{};
  std::shared_ptr<Context> context = std::make_shared<Context>(support::options());
  std::unique_ptr<LinkState> state{};
  std::optional<Frame> answer{};
};

}  // namespace

TEST_CASE("a peer with another key gets nowhere, and is told where to look", "[ucx][bootstrap]") {
  Target target;
  auto o = support::options();
  o.key = "another secret of 32 characters!";
  Ucx stranger(o, support::hello("stranger", 2));
  auto const why = failure_of(target, stranger);
  CHECK(contains(why, "Options::key"));
  CHECK_FALSE(contains(why, o.key));
  CHECK_FALSE(contains(stranger.explain(), o.key));
  CHECK(target.transport.counters().wrong_key == 1);
  CHECK(target.node.links.empty());
  CHECK(target.welcomes());
}

TEST_CASE("a stranger learns the version and a nonce, nothing more", "[ucx][bootstrap]") {
  Target target;
  RawPeer peer(target.transport.address());
  peer.greet();
  auto const greet = target.answer(peer);
  REQUIRE(greet);
  CHECK(greet->type == FrameType::server_greet);
  CHECK(greet->body.size() == 8 + 2 + 32);
  peer.prove(*greet, "a guess that is not the real key");
  CHECK_FALSE(target.answer(peer));
  CHECK(target.transport.counters().wrong_key == 1);
}

TEST_CASE("a recorded proof does not open another connection", "[ucx][bootstrap]") {
  Target target;
  RawPeer first(target.transport.address());
  first.greet();
  first.prove(*target.answer(first));
  REQUIRE(target.answer(first)->type == FrameType::identify);
  auto const recorded = first.keys->proof(Role::client);

  RawPeer second(target.transport.address());
  second.nonce = first.nonce;
  second.greet();
  REQUIRE(target.answer(second));
  second.put(FrameType::client_proof, recorded);
  CHECK_FALSE(target.answer(second));
  CHECK(target.transport.counters().wrong_key == 1);
}

TEST_CASE("junk is dropped without a word and harms nobody", "[ucx][bootstrap]") {
  Target target;
  std::vector<std::string> const junk = {
      std::string(64, '\0'), std::string(10'000, 'x'), "GET / HTTP/1.1\r\nHost: b10\r\n\r\n",
      std::string("\x01\x00\x00\x00\xff", 5),
      std::string("\x2b\x00\x00\x00\x01", 5) + std::string(42, 'j')};
  for (auto const& bytes : junk) {
    RawPeer peer(target.transport.address());
    peer.raw(laws::frame(bytes));
    CHECK_FALSE(target.answer(peer));
  }
  auto const& c = target.transport.counters();
  CHECK(c.junk + c.oversize == junk.size());
  CHECK(target.welcomes());
}

TEST_CASE("another protocol version is named on both sides", "[ucx][bootstrap]") {
  Target target;
  RawPeer peer(target.transport.address());
  peer.greet(999);
  auto const greet = target.answer(peer);
  REQUIRE(greet);
  CHECK(Greet::decode(greet->body)->version == protocol_version);
  CHECK_FALSE(target.answer(peer));
  CHECK(target.transport.counters().wrong_version == 1);

  // The other way round: a listener that speaks 999.
  auto listener = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  target.transport.connect(ConnectId{1}, bound_address(listener).text(),
                           target.transport.now() + seconds(15));
  Fd accepted;
  REQUIRE(target.until([&] {
    SocketAddress from;
    if (!accepted) accepted = accept_one(listener, from);
    return static_cast<bool>(accepted);
  }));
  FrameStream frames;
  frames.put(FrameType::server_greet, Greet{999, random_nonce()}.encode());
  auto const out = frames.to_send();
  REQUIRE(::send(accepted.get(), out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()));
  REQUIRE(target.until([&] { return !target.node.failures.empty(); }));
  CHECK(contains(target.node.failures[0].second, "999"));
  CHECK(contains(target.node.failures[0].second, std::to_string(protocol_version)));
}

TEST_CASE("a frame longer than its place allows is refused unread", "[ucx][bootstrap]") {
  Target target;
  auto const oversize = [&] { return target.transport.counters().oversize; };
  for (std::uint32_t const length : {0xffff'ffffu, 65u}) {
    RawPeer peer(target.transport.address());
    BodyWriter w;
    w.integer(length);
    peer.raw(w.bytes);
    CHECK_FALSE(target.answer(peer));
  }
  CHECK(oversize() == 2);
  RawPeer insider(target.transport.address());
  insider.greet();
  insider.prove(*target.answer(insider));
  REQUIRE(target.answer(insider));
  BodyWriter w;
  w.integer(FrameStream::frame_bytes_max + 1);
  insider.raw(w.bytes);
  CHECK_FALSE(target.answer(insider));
  CHECK(oversize() == 3);
}

TEST_CASE("C41 silent connections cannot keep a peer out", "[ucx][bootstrap][C41]") {
  auto o = support::options();
  o.handshakes_max = 4;
  Target target(o);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(std::make_unique<RawPeer>(target.transport.address()));
    if (i % 2 == 0) silent.back()->raw(laws::frame(std::string_view("\x2b", 1)));
  }
  REQUIRE(target.until([&] {
    for (auto& s : silent) s->progress();
    return target.transport.counters().evicted >= 8;
  }));
  CHECK(target.welcomes());
}

TEST_CASE("a handshake that drips is closed at its deadline", "[ucx][bootstrap][C41]") {
  auto o = support::options();
  o.handshake = milliseconds(30);
  Target target(o);
  RawPeer peer(target.transport.address());
  BodyWriter whole;
  whole.integer(std::uint32_t{43});
  whole.integer(std::uint8_t{1});
  whole.append(Greet{}.encode());
  std::size_t sent = 0;
  auto next = steady_now();
  REQUIRE(target.until([&] {
    if (steady_now() >= next && sent + 1 < whole.bytes.size()) {
      peer.raw(std::span(whole.bytes).subspan(sent++, 1));
      next = steady_now() + milliseconds(2);
    }
    peer.progress();
    return peer.closed();
  }));
  CHECK(target.transport.counters().expired == 1);
}

TEST_CASE("a port in use is named with its knob", "[ucx][bootstrap]") {
  Target target;
  auto o = support::options();
  o.listen = target.transport.address();
  auto const why = error_of(o);
  CHECK(contains(why, "Options::listen"));
  CHECK(contains(why, o.listen));
  CHECK(contains(why, "in use"));
}

TEST_CASE("a node does not connect to itself", "[ucx][bootstrap]") {
  Target target;
  target.transport.connect(ConnectId{1}, target.transport.address(),
                           target.transport.now() + seconds(15));
  REQUIRE(target.until([&] { return !target.node.failures.empty(); }));
  CHECK(contains(target.node.failures[0].second, "itself"));
  CHECK(target.node.links.empty());
}

TEST_CASE("addresses that cannot work fail with a sentence", "[ucx][bootstrap]") {
  Target target;
  std::string closed;
  {
    auto const listener = listen_on(*SocketAddress::parse("127.0.0.1:0"));
    closed = bound_address(listener).text();
  }
  for (auto const& address : {closed, std::string("host.example:7"), std::string("127.0.0.1"),
                              std::string("127.0.0.1:99999"), std::string("[::1:7")}) {
    auto const n = target.node.failures.size();
    target.transport.connect(ConnectId{7}, address, target.transport.now() + seconds(15));
    REQUIRE(target.until([&] { return target.node.failures.size() > n; }));
    CHECK(contains(target.node.failures.back().second, address));
  }
  CHECK(contains(target.node.failures[0].second, "refused"));
}

TEST_CASE("incompatible nodes are refused with both values", "[ucx][bootstrap]") {
  Target target;
  auto h = support::hello("other", 2);
  h.policies = "tag::Other";
  Ucx client(support::options(), h);
  CHECK(contains(failure_of(target, client), "tag::Other"));

  // Another UCX, another wire or another threshold cannot interoperate.
  Hello a = target.transport.local();
  Hello b = a;
  b.name = "b";
  b.incarnation = {7, 7};
  b.transport = "ucx 0.99 tcp rndv=8000";
  CHECK(contains(incompatibility(a, b), "0.99"));
  CHECK(contains(a.transport, "rndv=8000"));
}

TEST_CASE("a changed frame after the proof ends the contact", "[ucx][bootstrap]") {
  Target target;
  RawPeer peer(target.transport.address());
  peer.greet();
  peer.prove(*target.answer(peer));
  REQUIRE(target.answer(peer));
  auto const before = target.transport.counters().wrong_key;
  peer.put(FrameType::offer, Offer{seconds(1), {}, support::hello("p", 3), {}}.encode());
  std::vector<std::byte> bytes(peer.socket->frames.to_send().begin(),
                               peer.socket->frames.to_send().end());
  peer.socket->frames.sent(bytes.size());
  bytes[20] ^= std::byte{1};
  peer.raw(bytes);
  CHECK_FALSE(target.answer(peer));
  CHECK(target.transport.counters().wrong_key == before + 1);
}

TEST_CASE("an insider's malformed offer ends the contact", "[ucx][bootstrap]") {
  for (std::size_t cut : {std::size_t{0}, std::size_t{11}, std::size_t{16}, std::size_t{40}}) {
    Target target;
    RawPeer peer(target.transport.address());
    peer.greet();
    peer.prove(*target.answer(peer));
    REQUIRE(target.answer(peer));
    auto body = Offer{seconds(1), {}, support::hello("p", 3), {}}.encode();
    peer.put(FrameType::offer, std::span(body).first(cut));
    CHECK_FALSE(target.answer(peer));
    CHECK(target.transport.counters().junk == 1);
  }
}

TEST_CASE("a pair whose generations are used up is refused, not wrapped", "[ucx][bootstrap]") {
  Target target;
  InsidePeer peer(target, Generation{0xffff'ffff});
  REQUIRE(peer.answer);
  CHECK(peer.answer->type == FrameType::refuse);
  CHECK(contains(printable(peer.answer->body), "used up"));
}

TEST_CASE("a forged control message ends the link", "[ucx][bootstrap]") {
  Target target;
  InsidePeer peer(target);
  peer.connect();
  ControlSender forger(peer.raw.keys->control(Role::server));  // a key it should not sign with
  REQUIRE(forger.send(*peer.state->worker, laws::frame("sequence 0 again")));
  REQUIRE(target.until([&] {
    peer.state->worker->progress();
    peer.raw.progress();
    return !target.node.downs.empty();
  }));
  CHECK(target.node.downs[0].how == LinkDown::lost);
  CHECK(contains(target.node.downs[0].why, "not authentic"));
  CHECK(target.node.controls.empty());
  CHECK(target.transport.counters().bad_controls == 1);
  target.node.links.clear();
}

TEST_CASE("a peer that stops speaking is found silent", "[ucx][bootstrap]") {
  auto o = support::options();
  o.heartbeat = milliseconds(10);
  o.heartbeat_misses = 3;
  Target target(o);
  InsidePeer peer(target);
  peer.connect();
  REQUIRE(target.until([&] { return !target.node.downs.empty(); }));
  CHECK(target.node.downs[0].how == LinkDown::silent);
  CHECK(contains(target.node.downs[0].why, "heartbeat_misses"));
  CHECK(target.transport.counters().silent == 1);
  target.node.links.clear();
}

TEST_CASE("C48 what arrived before the end is delivered before the end is told", "[ucx][C48]") {
  Target target;
  InsidePeer peer(target);
  peer.connect();
  std::array<std::byte, 100> result{};
  Operation received;
  target.node.link().receive(Tag{5}, result.data(), result.size(), received);
  // More than one call of UCX's progress takes in, then the message that counts, then the end; all
  // of it before the target looks at anything.
  std::string const words(control_frame_bytes_max, 'w');
  for (int i = 0; i < 60; ++i) {
    REQUIRE(peer.state->sender.send(*peer.state->worker, laws::frame(words)));
  }
  auto const payload = laws::pattern(100, 9);
  Operation sent;
  peer.state->worker->send(Tag{5}, payload.data(), payload.size(), sent);
  for (int i = 0; i < 5000; ++i) peer.state->worker->progress();
  REQUIRE(sent.done());
  peer.raw.socket->close();
  REQUIRE(target.until([&] { return !target.node.downs.empty() || received.done(); }));
  CHECK(received.done());
  CHECK(received.status() == OperationStatus::ok);
  REQUIRE(target.until([&] { return !target.node.downs.empty(); }));
  CHECK(target.node.controls.size() == 60);
  CHECK(std::equal(payload.begin(), payload.end(), result.begin()));
  target.node.links.clear();
}

TEST_CASE("a first message that comes after the end of its contact harms nobody", "[ucx]") {
  Target target;
  InsidePeer peer(target);
  peer.knock();
  // UCX takes 8 KiB in at a time, so that the target sees the end of the socket first.
  auto const words = laws::pattern(7000, 1);
  std::array<Operation, 10> sent;
  for (auto& s : sent) peer.state->worker->send(Tag{5}, words.data(), words.size(), s);
  REQUIRE(peer.state->sender.send(*peer.state->worker, {}));
  for (int i = 0; i < 5000; ++i) peer.state->worker->progress();
  peer.raw.socket->close();
  target.transport.wait(target.transport.now());  // the next progress() looks at the sockets
  REQUIRE(target.until([&] { return contains(target.transport.explain(), "0 handshakes"); }));
  CHECK(target.node.links.empty());
  CHECK(target.welcomes());
}

TEST_CASE("C15 a receive takes its whole tag of its own peer, and nothing else", "[ucx][C15]") {
  Target target;
  Ucx one(support::options(), support::hello("one", 2));
  Ucx two(support::options(), support::hello("two", 3));
  laws::Node<Ucx> left(one), right(two);
  auto const turn = [&] {
    left.progress();
    right.progress();
  };
  for (auto* node : {&left, &right}) {
    node->transport->connect(ConnectId{1}, target.transport.address(), one.now() + seconds(15));
    REQUIRE(target.until([&] {
      turn();
      return !node->links.empty() && target.node.links.size() == (node == &left ? 1u : 2u);
    }));
  }
  // Both use one tag at once; tags that agree with it in 16, 32 or 63 bits have come before.
  Tag const tag{0x1234'5678'9abc'def0};
  auto const foreign = laws::pattern(64, 9);
  std::array<Operation, 8> sent;
  std::size_t posted = 0;
  for (std::uint64_t const other :
       {std::uint64_t{0xdef0}, std::uint64_t{0x9abc'def0}, 0x1234'5678'9abc'def1u}) {
    left.link().send(Tag{other}, foreign.data(), foreign.size(), sent[posted++]);
    right.link().send(Tag{other}, foreign.data(), foreign.size(), sent[posted++]);
  }
  std::vector<std::byte> const payloads[] = {laws::pattern(64, 1), laws::pattern(64, 2)};
  std::vector<std::byte> got[] = {std::vector<std::byte>(64), std::vector<std::byte>(64)};
  std::array<Operation, 2> received;
  for (int i = 0; i < 2000; ++i) target.node.progress(), turn();
  for (std::size_t i = 0; i < 2; ++i)
    target.node.links[i]->receive(tag, got[i].data(), got[i].size(), received[i]);
  for (int i = 0; i < 2000; ++i) target.node.progress(), turn();
  CHECK(received[0].pending());
  CHECK(received[1].pending());
  right.link().send(tag, payloads[1].data(), 64, sent[posted++]);
  left.link().send(tag, payloads[0].data(), 64, sent[posted++]);
  REQUIRE(target.until([&] {
    turn();
    return received[0].done() && received[1].done();
  }));
  CHECK(got[0] == payloads[0]);
  CHECK(got[1] == payloads[1]);
  for (auto& link : target.node.links) CHECK(link->sink_unexpected() == 3);
  target.node.links.clear();
}

TEST_CASE("unexpected messages can be counted and thrown away", "[ucx]") {
  Target target;
  InsidePeer peer(target);
  peer.connect();
  auto const small = laws::pattern(100, 1);
  auto const large = laws::pattern(100'000, 2);
  std::array<Operation, 4> sent;
  for (std::size_t i = 0; i < 4; ++i) {
    auto const& p = i % 2 == 0 ? small : large;
    peer.state->worker->send(Tag{i}, p.data(), p.size(), sent[i]);
  }
  unsigned found = 0;
  REQUIRE(target.until([&] {
    peer.state->worker->progress();
    peer.raw.progress();
    found += target.node.link().sink_unexpected();
    return found == 4 && std::all_of(sent.begin(), sent.end(), [](auto& o) { return o.done(); });
  }));
  CHECK(target.node.link().sink_unexpected() == 0);
  target.node.links.clear();
}

TEST_CASE("a message of 8000 bytes waits for its receive, a shorter one does not", "[ucx]") {
  Target target;
  InsidePeer peer(target);
  peer.connect();
  auto const payload = laws::pattern(rendezvous_bytes, 1);
  Operation rendezvous, eager;
  peer.state->worker->send(Tag{1}, payload.data(), rendezvous_bytes, rendezvous);
  peer.state->worker->send(Tag{2}, payload.data(), rendezvous_bytes - 1, eager);
  REQUIRE(target.until([&] {
    peer.state->worker->progress();
    return eager.done();
  }));
  for (int i = 0; i < 1000; ++i) {
    peer.state->worker->progress();
    target.node.progress();
  }
  CHECK(rendezvous.pending());
  target.node.links.clear();
}

TEST_CASE("C51 C08 the environment cannot change lanes, rendezvous threshold or error handling",
          "[ucx][C51]") {
  setenv("UCX_TLS", "all", 1);
  setenv("B10_UCX_TLS", "all", 1);
  setenv("B10_UCX_RNDV_THRESH", "inf", 1);
  Target target;
  CHECK(target.welcomes());
  auto const told = target.transport.explain();
  CHECK(contains(told, "lanes tcp/lo, fragment"));
  CHECK(contains(told, "rendezvous from 8000 bytes"));
  CHECK(contains(told, "peer error handling"));  // always: there is no option to go without
  unsetenv("UCX_TLS");
  unsetenv("B10_UCX_TLS");
  unsetenv("B10_UCX_RNDV_THRESH");
}

TEST_CASE("wrong set-up is refused with value, limit and knob", "[ucx]") {
  auto const knob = [](auto change) {
    auto o = support::options();
    change(o);
    return error_of(o);
  };
  CHECK(contains(knob([](Options& o) { o.key = "short"; }), "Options::key"));
  CHECK_FALSE(contains(knob([](Options& o) { o.key = "short"; }), "short"));
  CHECK(contains(knob([](Options& o) { o.heartbeat = {}; }), "Options::heartbeat"));
  CHECK(contains(knob([](Options& o) { o.heartbeat_misses = 1; }), "Options::heartbeat_misses"));
  CHECK(contains(knob([](Options& o) { o.handshake = {}; }), "Options::handshake"));
  CHECK(contains(knob([](Options& o) { o.handshakes_max = 0; }), "Options::handshakes_max"));
  CHECK(contains(knob([](Options& o) { o.listen = "localhost:1"; }), "Options::listen"));
  CHECK(contains(knob([](Options& o) { o.listen = "0.0.0.0:0"; }), "Options::net_device"));
  CHECK(contains(knob([](Options& o) { o.listen = ""; }), "Options::net_device"));
  CHECK(contains(knob([](Options& o) { o.net_device = "nosuchdevice"; }), "nosuchdevice"));
  auto h = support::hello("x", 1);
  h.layout = std::string(64 * 1024, 'l');
  CHECK(contains(error_of(support::options(), h), "layout"));
  CHECK(contains(error_of(support::options(), support::hello("", 1)), "name"));
}

TEST_CASE("a node that does not listen can connect", "[ucx]") {
  Target target;
  auto o = support::options();
  o.listen.clear();
  o.net_device = "lo";
  Ucx client(o, support::hello("client", 2));
  CHECK(client.address().empty());
  CHECK(failure_of(target, client).empty());
}

TEST_CASE("lanes that are not on the list are refused by name", "[ucx]") {
  auto const lanes = parse_lanes(
      "# UCP endpoint\n#               peer: <no debug data>\n"
      "#                 lane[0]:  2:tcp/lo.0 md[1]            -> md[1]/tcp/sysdev[255] am "
      "am_bw#0\n"
      "#                 lane[1]:  5:cma/memory.0 md[2]  -> md[2]/cma rma_bw#0\n"
      "#                tag_send: 0..<egr/short>..90\n");
  CHECK(lanes == std::vector<std::string>{"cma/memory", "tcp/lo"});
  CHECK(contains(refuse_lanes(lanes, Wire::tcp, "lo"), "cma/memory"));
  CHECK(refuse_lanes({"tcp/lo"}, Wire::tcp, "lo").empty());
  CHECK_FALSE(refuse_lanes({"tcp/eth0"}, Wire::tcp, "lo").empty());
  CHECK_FALSE(refuse_lanes({}, Wire::tcp, "lo").empty());
}

TEST_CASE("a secured stream takes no changed, repeated, missing or turned frame", "[ucx]") {
  Digest one{}, two{};
  one[0] = std::byte{1};
  two[0] = std::byte{2};
  FrameStream sender;
  sender.secure(one, two);
  sender.put(FrameType::heartbeat);
  auto const first = sender.to_send().size();
  sender.put(FrameType::refuse, laws::frame("why"));
  std::vector<std::byte> const bytes(sender.to_send().begin(), sender.to_send().end());
  auto const read = [&](std::vector<std::byte> const& in, bool turned = false) {
    FrameStream reader;
    turned ? reader.secure(two, two) : reader.secure(two, one);
    reader.received(in);
    int n = 0;
    while (reader.next()) ++n;
    return std::pair(n, reader.fault());
  };
  CHECK(read(bytes) == std::pair(2, FrameStream::Fault::none));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{1};
    CHECK(read(changed).first < 2);
  }
  using Bytes = std::vector<std::byte>;
  auto const at = bytes.begin() + static_cast<std::ptrdiff_t>(first);
  CHECK(read(Bytes(at, bytes.end())).second == FrameStream::Fault::not_authentic);
  auto repeated = Bytes(bytes.begin(), at);
  repeated.insert(repeated.end(), bytes.begin(), at);
  CHECK(read(repeated) == std::pair(1, FrameStream::Fault::not_authentic));
  CHECK(read(bytes, true).second == FrameStream::Fault::not_authentic);
}

TEST_CASE("an inbox takes only the next authentic frame", "[ucx]") {
  Digest key{};
  ShortMac mac(key);
  auto const deliver = [&](ControlInbox& box, std::uint64_t sequence, std::string_view text,
                           std::uint64_t change = 0,
                           std::size_t header_bytes = sizeof(ControlHeader)) {
    ControlHeader h{sequence, 0};
    REQUIRE(mac(sequence, laws::frame(text), h.code));
    h.code ^= change;
    std::string copy(text);
    ucp_am_recv_param_t const param{};
    ControlInbox::on_message(&box, &h, header_bytes, copy.data(), copy.size(), &param);
  };
  ControlInbox good(key);
  CHECK_FALSE(good.wired());
  deliver(good, 0, "");
  deliver(good, 1, "one");
  deliver(good, 2, "");
  CHECK(good.wired());
  CHECK_FALSE(good.fault());
  REQUIRE(good.next());
  CHECK(good.next()->empty());
  CHECK_FALSE(good.next());
  deliver(good, 2, "again");
  CHECK(good.fault());

  ControlInbox forged(key), skipped(key), wrong_form(key), too_long(key), full(key);
  deliver(forged, 0, "", 1);
  CHECK(forged.fault());
  deliver(skipped, 1, "");
  CHECK(skipped.fault());
  deliver(wrong_form, 0, "", 0, 8);
  CHECK(wrong_form.fault());
  deliver(too_long, 0, std::string(control_frame_bytes_max + 1, 'x'));
  CHECK(too_long.fault());
  std::string const frame(control_frame_bytes_max, 'x');
  for (std::uint64_t i = 0; !full.fault() && i < 1000; ++i) deliver(full, i, i == 0 ? "" : frame);
  CHECK(full.fault());
}

TEST_CASE("the domain of a pair is symmetric, stable and secret", "[ucx]") {
  auto const a = support::hello("a", 1);
  auto const b = support::hello("b", 2);
  auto const again = support::hello("b", 3);
  CHECK(pair_domain("k", a, b) == pair_domain("k", b, a));
  CHECK(pair_domain("k", a, b) != pair_domain("k", a, again));
  CHECK(pair_domain("k", a, b) != pair_domain("other", a, b));
  // Each side gives out its own half of the numbers, always upwards.
  for (std::uint32_t floor : {0u, 1u, 2u, 77u}) {
    auto const one = next_generation(Generation{floor}, a, b);
    auto const two = next_generation(Generation{floor}, b, a);
    REQUIRE((one && two));
    CHECK(*one != *two);
    CHECK(std::min(*one, *two) == Generation{floor + 1});
  }
  CHECK_FALSE(next_generation(Generation{0xffff'ffff}, a, b));
}
