// A digest tells bytes that changed on their way, which lengths and identities cannot
// (completion::Digested).
#include <b10/digest.hpp>

#include <array>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/forger.hpp"
#include "support/two_nodes.hpp"

using namespace b10;
using namespace support;

namespace {

using DigestNode =
    Node<tag::Hashed, slicing::Pipelined<slice_bytes, 2>,
         staging::Host<slicing::Pipelined<slice_bytes, 2>, copy::Held>, completion::Digested>;
using SharingDigestNode =
    Node<tag::Hashed, slicing::Pipelined<slice_bytes, 2>,
         staging::SharedHost<slicing::Pipelined<slice_bytes, 2>, copy::Held>, completion::Digested>;

std::uint64_t digest_of(std::span<std::byte const> bytes) {
  Digest d;
  d.update(bytes.data(), bytes.size());
  return d.value();
}

/// Changes one DATA message on its way and says what came of the transfer.
template <class N, class Change>
Outcome corrupted(Change change) {
  TwoNodes<N> n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  Forger f(n.network, data_chunk(1));
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  REQUIRE_FALSE(f.message.empty());
  change(f.message);
  f.deliver();
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok() == o->ok());
  CHECK(t.outcome()->reason == o->reason);
  if (o->ok()) CHECK(n.exactly(0, 10));
  return *o;
}

}  // namespace

TEST_CASE("The digest of known bytes is the known one", "[digest]") {
  std::array<std::byte, 100> bytes{};
  CHECK(digest_of({}) == 0);
  CHECK(digest_of(std::span(bytes).first(8)) == 0xe220a8397b1dcdaf);
  CHECK(digest_of(std::span(bytes).first(64)) == 0xb0f532d4bdaff080);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(digest_of(bytes) == 0x3a7ae176c5e07242);
  CHECK(digest_of(std::as_bytes(std::span(std::string_view("abc")))) == 0x409643760a471523);
}

TEST_CASE("A digest does not depend on how its bytes come", "[digest]") {
  std::vector<std::byte> bytes(257);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(3, i);
  auto const whole = digest_of(bytes);
  for (std::size_t step = 1; step < 40; ++step) {
    Digest d;
    for (std::size_t at = 0; at < bytes.size(); at += step)
      d.update(bytes.data() + at, std::min(step, bytes.size() - at));
    CHECK(d.value() == whole);
  }
}

TEST_CASE("One changed bit, a moved word and swapped words change a digest", "[digest]") {
  std::vector<std::byte> bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(4, i);
  auto const before = digest_of(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CHECK(digest_of(bytes) != before);
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 32);
  CHECK(digest_of(bytes) != before);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 32);
  std::rotate(bytes.begin(), bytes.begin() + 8, bytes.end());
  CHECK(digest_of(bytes) != before);
}

TEST_CASE("With digests a transfer lands as without", "[digest]") {
  CHECK(corrupted<DigestNode>([](auto&) {}).ok());
  CHECK(corrupted<SharingDigestNode>([](auto&) {}).ok());
}

TEST_CASE("C84 a payload that changed on its way fails the transfer on both sides", "[digest]") {
  std::size_t const at = GENERATE(as<std::size_t>{}, wire::data_header_bytes,
                                  wire::data_header_bytes + 511, std::size_t{1087});
  auto const o = corrupted<DigestNode>([&](auto& m) { m.at(at) ^= std::byte{0x10}; });
  CHECK(o.reason == Reason::integrity);
  CHECK_THAT(o.why, Catch::Contains("DATA 1") && Catch::Contains("digests differ"));
}

TEST_CASE("Without digests nothing else could tell", "[digest]") {
  TwoNodes n;  // what completion::Digested is for, and why corrupted() is a test at all
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 4);
  Forger f(n.network, data_chunk(0));
  auto t = n.write(peer, 1, 0, 4, seconds(60));
  n.settle();
  f.message.at(wire::data_header_bytes + 5) ^= std::byte{1};
  f.deliver();
  n.settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->ok());
  CHECK_FALSE(n.exactly(0, 4));
}

TEST_CASE("A digest that does not belong to the bytes in a shared view fails the transfer",
          "[digest]") {
  auto const o = corrupted<SharingDigestNode>([](auto& m) {
    auto h = *wire::decode_data_header(m);
    ++h.digest;
    wire::encode(h,
                 std::span<std::byte, wire::data_header_bytes>(m.data(), wire::data_header_bytes));
  });
  CHECK(o.reason == Reason::integrity);
}

TEMPLATE_TEST_CASE("Nodes of which one has digests refuse each other's transfers and say why",
                   "[digest]", Node<>, DigestNode) {
  auto const network =
      std::make_shared<transport::loopback::Network>(transport::loopback::Network::Clock::manual);
  constexpr bool digests = std::is_same_v<TestType, DigestNode>;
  using Other = std::conditional_t<digests, Node<>, DigestNode>;
  auto const start = [&](auto& node, char const* name) {
    typename std::remove_cvref_t<decltype(*node)>::Config c;
    c.name = name;
    c.staging.buffers = 8;
    c.staging.buffer_bytes = slice_bytes;
    c.staging.page_lock = staging::PageLock::never;
    c.transport.network = network;
    c.transport.address = name;
    c.progress = Progress::manual;
    node.emplace(c);
  };
  std::optional<TestType> a;
  std::optional<Other> b;
  start(a, "a");
  start(b, "b");
  std::array<std::byte, 64> from{}, to{};
  b->register_memory({to.data(), to.size()});
  auto const settle = [&] {
    for (int i = 0; i < 100; ++i) static_cast<void>(a->progress() + b->progress());
  };
  auto const connecting = a->begin_connect("b", seconds(1));
  settle();
  REQUIRE(connecting.peer());
  std::vector<LocalSpan> const source{{from.data(), 64}}, destination{{to.data(), 64}};
  auto const g = b->grant(RequestId{1}, destination, seconds(9));
  std::vector<RemoteSpan> const remote{as_remote(destination[0])};
  auto const t = a->write(
      *connecting.peer(),
      {.request = RequestId{1}, .sources = source, .destinations = remote, .deadline = seconds(1)});
  settle();
  REQUIRE(t.outcome());
  CHECK(t.outcome()->reason == Reason::refused);
  CHECK_THAT(t.outcome()->why, Catch::Contains(digests ? "digest kind 1, here it is 0"
                                                       : "digest kind 0, here it is 1") &&
                                   Catch::Contains("Completion policy"));
}
