#include <b10/transport/ucx.hpp>

#include "laws/transport.hpp"
#include "support/catch.hpp"
#include "support/raw_peer.hpp"

using b10::transport::Ucx;

namespace {

template <Ucx::Wire wire>
struct Pair {
  using Transport = Ucx;
  /// So rare a heartbeat that nothing is woken up by one.
  static Ucx::Options quiet() {
    auto o = support::options(wire);
    o.heartbeat = b10::seconds(60);
    return o;
  }
  Ucx one{quiet(), support::hello("left", 1)};
  Ucx two{quiet(), support::hello("right", 2)};
  Ucx& left() { return one; }
  Ucx& right() { return two; }
};

}  // namespace

TEST_CASE("transport::Ucx over tcp obeys the transport laws", "[ucx][transport]") {
  laws::transport<Pair<Ucx::Wire::tcp>>();
}

TEST_CASE("transport::Ucx over shared memory obeys the transport laws", "[ucx][transport]") {
  laws::transport<Pair<Ucx::Wire::shared_memory>>();
}
