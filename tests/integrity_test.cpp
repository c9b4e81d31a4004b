// Nothing but exactly the expected chunk reaches KV memory: wrong lengths and foreign identities
// fail the transfer before its scatter (S5 and the field cases C50, C68).
#include "support/forger.hpp"
#include "support/two_nodes.hpp"

#include "support/catch.hpp"

using namespace b10;
using namespace support;

namespace {

template <class Change>
void forge(std::uint32_t chunk, char const* says, Change change) {
  TwoNodes n;
  auto const peer = n.connect();
  auto g = n.grant(1, 0, 10);
  Forger f(n.network, data_chunk(chunk));
  auto t = n.write(peer, 1, 0, 10, seconds(60));
  n.settle();
  REQUIRE_FALSE(f.message.empty());
  auto const blocks = n.pool;
  change(f.message);
  f.deliver();
  n.settle();
  auto const o = g.next({});
  REQUIRE(o);
  CHECK(o->reason == Reason::integrity);
  INFO(o->why);
  CHECK(o->why.find(says) != std::string::npos);
  CHECK(n.pool == blocks);  // nothing of that chunk was scattered
  REQUIRE(t.outcome());
  CHECK_FALSE(t.outcome()->ok());
}

}  // namespace

TEST_CASE("C68 a DATA message of another length is never scattered", "[integrity][C68]") {
  SECTION("one byte short") {
    forge(2, "575 of 576", [](auto& m) { m.pop_back(); });
  }
  SECTION("one byte long") {
    forge(2, "577 of 576", [](auto& m) { m.push_back(std::byte{1}); });
  }
  SECTION("empty") {
    forge(2, "0 of 576", [](auto& m) { m.clear(); });
  }
}

TEST_CASE("A DATA message that carries another identity is never scattered", "[integrity]") {
  auto const rewrite = [](auto edit) {
    return [edit](std::vector<std::byte>& m) {
      auto h = *wire::decode_data_header(m);
      edit(h);
      wire::encode(
          h, std::span<std::byte, wire::data_header_bytes>(m.data(), wire::data_header_bytes));
    };
  };
  SECTION("another transfer") {
    forge(1, "another identity",
          rewrite([](auto& h) { h.transfer = TransferId{to_integer(h.transfer) + 2}; }));
  }
  SECTION("another generation") {
    forge(1, "another identity",
          rewrite([](auto& h) { h.generation = Generation{to_integer(h.generation) + 1}; }));
  }
  SECTION("another chunk") {
    forge(1, "another identity", rewrite([](auto& h) { h.chunk = ChunkIndex{0}; }));
  }
  SECTION("another size") {
    forge(1, "another identity", rewrite([](auto& h) { h.bytes -= 1; }));
  }
  SECTION("no header at all") {
    forge(1, "another identity", [](auto& m) { m[0] ^= std::byte{0xff}; });
  }
}
