#include <b10/transport/loopback.hpp>

#include <random>

#include "laws/transport.hpp"
#include "support/catch.hpp"

using namespace b10;

namespace {

Hello hello(char const* name, std::uint64_t incarnation) {
  Hello h;
  h.name = name;
  h.incarnation = {incarnation, incarnation * 77};
  return h;
}

struct LoopbackFixture {
  using Transport = transport::Loopback;
  std::shared_ptr<Transport::Network> network = std::make_shared<Transport::Network>();
  Transport left_{{network, "left"}, hello("left", 1)};
  Transport right_{{network, "right"}, hello("right", 2)};
  Transport& left() { return left_; }
  Transport& right() { return right_; }
};

}  // namespace

TEST_CASE("transport::Loopback obeys the transport laws", "[loopback]") {
  laws::transport<LoopbackFixture>();
}

TEST_CASE("transport::Loopback refuses a missing network and an address in use", "[loopback]") {
  auto network = std::make_shared<transport::Loopback::Network>();
  CHECK_THROWS_AS(transport::Loopback({}, hello("a", 1)), Error);
  transport::Loopback first({network, "x"}, hello("a", 1));
  CHECK_THROWS_AS(transport::Loopback({network, "x"}, hello("b", 2)), Error);
}
