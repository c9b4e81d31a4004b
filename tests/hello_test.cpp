#include <b10/hello.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace b10;
using Catch::Contains;

namespace {

using Bytes = std::vector<std::byte>;

Hello hello() {
  Hello h;
  h.name = "decode-0";
  h.incarnation = {1, 2};
  h.listen = "10.0.0.1:7000";
  h.transport = "ucx 1.13 tcp";
  h.policies = "tag::Hashed";
  h.layout = std::string("llama\0\xff", 7);
  h.slice_bytes = 8u << 20;
  h.staging = std::string("segment 7\0of 4096", 17);
  h.features = 0b111;
  h.features_needed = 0b001;
  return h;
}

Hello peer() {
  auto h = hello();
  h.name = "prefill-3";
  h.incarnation = {3, 4};
  return h;
}

void append(Bytes& to, unsigned key, Bytes const& value) {
  for (unsigned i = 0; i < 2; ++i) to.push_back(static_cast<std::byte>(key >> 8 * i));
  for (unsigned i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(value.size() >> 8 * i));
  to.insert(to.end(), value.begin(), value.end());
}

struct Entry {
  unsigned key;
  Bytes value;
};

/// The entries of an encoded hello, to be put together differently.
std::vector<Entry> entries(Hello const& h) {
  std::vector<Entry> all;
  auto const bytes = encode_hello(h);
  for (ByteReader in(bytes); in.left() > 0;) {
    auto const key = in.take<std::uint16_t>();
    auto const value = in.take_bytes(in.take<std::uint32_t>());
    all.push_back({key, Bytes(value.begin(), value.end())});
  }
  return all;
}

Bytes joined(std::vector<Entry> const& all) {
  Bytes bytes;
  for (auto const& e : all) append(bytes, e.key, e.value);
  return bytes;
}

/// Both sides must decide alike; returns what `a` says about `b`.
std::string verdict(Hello const& a, Hello const& b) {
  REQUIRE(incompatibility(a, b).empty() == incompatibility(b, a).empty());
  return incompatibility(a, b);
}

}  // namespace

TEST_CASE("A hello comes back as it was sent", "[hello]") {
  CHECK(decode_hello(encode_hello(hello())) == hello());
  Hello least;
  least.name = "n";
  CHECK(decode_hello(encode_hello(least)) == least);
}

TEST_CASE("The longest hello fits and comes back", "[hello]") {
  auto h = hello();
  h.name = h.listen = h.transport = h.policies = std::string(255, 'x');
  h.layout = std::string(4096, '\0');
  h.staging = std::string(1024, 's');
  CHECK(decode_hello(encode_hello(h)) == h);
}

TEST_CASE("A hello that breaks a limit is not encoded, and the knob is named", "[hello]") {
  auto h = hello();
  h.name = "";
  CHECK_THROWS_WITH(encode_hello(h), Contains("Config::name") && Contains("empty"));
  h.name = std::string(256, 'x');
  CHECK_THROWS_WITH(encode_hello(h), Contains("256 B") && Contains("255"));
  h.name = "two\nlines";
  CHECK_THROWS_WITH(encode_hello(h), Contains("control characters"));
  h = hello();
  h.layout = std::string(4097, 'x');
  CHECK_THROWS_WITH(encode_hello(h), Contains("Config::layout") && Contains("4096"));
  h = hello();
  h.staging = std::string(1025, 'x');
  CHECK_THROWS_WITH(encode_hello(h), Contains("offer of staging") && Contains("1024"));
}

TEST_CASE("C81 unknown keys are ignored, so that later versions can add some", "[hello]") {
  auto all = entries(hello());
  all.insert(all.begin() + 1, {4711, Bytes(1000, std::byte{7})});
  all.push_back({12, {}});
  all.push_back({0, {}});
  CHECK(decode_hello(joined(all)) == hello());
}

TEST_CASE("The order of keys after the protocol does not matter", "[hello]") {
  auto all = entries(hello());
  std::swap(all[1], all.back());
  CHECK(decode_hello(joined(all)) == hello());
}

TEST_CASE("C81 the protocol version comes first or the hello is refused", "[hello]") {
  auto all = entries(hello());
  std::swap(all[0], all[1]);
  CHECK_FALSE(decode_hello(joined(all)));
}

TEST_CASE("Of a hello of another protocol only the version is read", "[hello]") {
  Bytes bytes;
  append(bytes, 1, {std::byte{9}, std::byte{1}});
  append(bytes, 2, Bytes(5000));
  bytes.erase(bytes.end() - 17, bytes.end());
  auto const h = decode_hello(bytes);
  REQUIRE(h);
  CHECK(h->protocol == 0x0109);
  CHECK(h->name.empty());
}

TEST_CASE("A key that comes twice, or never, is refused", "[hello]") {
  auto const all = entries(hello());
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto twice = all;
    twice.push_back(all[i]);
    CHECK_FALSE(decode_hello(joined(twice)));
    auto never = all;
    never.erase(never.begin() + static_cast<long>(i));
    CHECK_FALSE(decode_hello(joined(never)));
  }
}

TEST_CASE("Values of a wrong length or content are refused", "[hello]") {
  auto const with = [](std::size_t i, Bytes const& value) {
    auto all = entries(hello());
    all[i].value = value;
    return decode_hello(joined(all)).has_value();
  };
  CHECK_FALSE(with(0, Bytes(1)));
  CHECK_FALSE(with(0, Bytes(3)));
  CHECK_FALSE(with(1, {}));
  CHECK_FALSE(with(1, Bytes(256, std::byte{'x'})));
  CHECK_FALSE(with(1, Bytes(3, std::byte{'\n'})));
  CHECK_FALSE(with(2, Bytes(15)));
  CHECK_FALSE(with(2, Bytes(17)));
  CHECK_FALSE(with(2, Bytes(8)));
  for (std::size_t i = 3; i <= 5; ++i) {
    CHECK(with(i, {}));
    CHECK_FALSE(with(i, Bytes(256, std::byte{'x'})));
  }
  CHECK(with(6, Bytes(4096)));
  CHECK_FALSE(with(6, Bytes(4097)));
  for (std::size_t i = 7; i <= 9; ++i) {
    CHECK_FALSE(with(i, Bytes(7)));
    CHECK_FALSE(with(i, Bytes(9)));
  }
}

TEST_CASE("C81 a hello cut short is refused", "[hello]") {
  auto const bytes = encode_hello(hello());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    REQUIRE_FALSE(decode_hello(std::span{bytes}.first(n)));
  }
}

TEST_CASE("A hello of more than 16 KiB is refused", "[hello]") {
  auto all = entries(hello());
  auto const used = encode_hello(hello()).size() + 6;
  all.push_back({99, Bytes(hello_bytes_max - used)});
  CHECK(decode_hello(joined(all)));
  all.back().value.push_back(std::byte{0});
  CHECK_FALSE(decode_hello(joined(all)));
}

TEST_CASE("A hello with changed bits is refused or within its limits", "[hello]") {
  std::mt19937_64 random(11);
  auto const bytes = encode_hello(hello());
  for (int round = 0; round < 50'000; ++round) {
    auto changed = bytes;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      changed[random() % changed.size()] ^= static_cast<std::byte>(1u << random() % 8);
    }
    if (auto const h = decode_hello(changed)) {
      REQUIRE(h->name.size() <= 255);
      REQUIRE(is_plain_text(h->name));
      REQUIRE((h->protocol != protocol_version || !h->name.empty()));
      REQUIRE(is_plain_text(h->transport));
    }
  }
}

TEST_CASE("Nodes that agree are compatible", "[hello]") { CHECK(verdict(hello(), peer()) == ""); }

TEST_CASE("Sizes of slices, addresses and names may differ", "[hello]") {
  auto other = peer();
  other.slice_bytes = 1;
  other.listen = "";
  CHECK(verdict(hello(), other) == "");
}

TEST_CASE("C80 C81 what must be equal but differs is named with both values", "[hello]") {
  auto other = peer();
  other.protocol = 77;
  CHECK_THAT(verdict(hello(), other), Contains("protocol") && Contains("77") && Contains(" 1 "));
  other = peer();
  other.transport = "ucx 1.22 tcp";
  CHECK_THAT(verdict(hello(), other),
             Contains("transport") && Contains("ucx 1.13 tcp") && Contains("ucx 1.22 tcp"));
  other = peer();
  other.policies = "tag::Low12";
  CHECK_THAT(verdict(hello(), other), Contains("tag::Hashed") && Contains("tag::Low12"));
  other = peer();
  other.layout = "plain";
  CHECK_THAT(verdict(hello(), other),
             Contains("layout") && Contains("\"plain\"") && Contains("0x6c6c616d6100ff"));
}

TEST_CASE("Long values are shortened and the first difference is named", "[hello]") {
  auto one = hello();
  auto two = peer();
  one.layout = std::string(4000, 'x');
  two.layout = one.layout;
  two.layout[3000] = 'y';
  auto const why = verdict(one, two);
  CHECK_THAT(why, Contains("byte 3000") && Contains("...") && Contains("4000 B"));
  CHECK(why.size() < 300);
}

TEST_CASE("A node refuses to talk to itself", "[hello]") {
  auto other = peer();
  other.incarnation = hello().incarnation;
  CHECK_THAT(verdict(hello(), other), Contains("this node itself"));
}

TEST_CASE("A missing feature is refused by both sides, each saying whom to upgrade", "[hello]") {
  auto needy = hello();
  needy.features_needed = 0b1010;
  CHECK_THAT(verdict(needy, peer()),
             Contains("peer lacks feature bits 0x8") && Contains("upgrade the peer"));
  CHECK_THAT(verdict(peer(), needy),
             Contains("this node lacks feature bits 0x8") && Contains("upgrade this node"));
}
