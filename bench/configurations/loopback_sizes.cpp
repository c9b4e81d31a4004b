#include "loopback.hpp"

namespace b10::bench {

namespace {

template <std::uint64_t KiB, unsigned Depth>
using Slices = slicing::Pipelined<(KiB << 10), Depth>;

}  // namespace

void add_loopback_sizes(Catalog& to) {
  constexpr auto sets =
      matrix(policies<staging::Host<Slices<64, 4>>, staging::Host<Slices<256, 2>>,
                      staging::Host<Slices<256, 8>>, staging::Host<Slices<1024, 4>>,
                      staging::Host<Slices<4096, 4>>, staging::SharedHost<Slices<64, 4>>,
                      staging::SharedHost<Slices<256, 2>>, staging::SharedHost<Slices<256, 8>>,
                      staging::SharedHost<Slices<1024, 4>>, staging::SharedHost<Slices<4096, 4>>>,
             policies<tag::Hashed>, policies<completion::CopyEvent>, policies<quarantine::Ttl<>>,
             policies<transport::Loopback>);
  add_matrix<LoopbackDefault>(to, Carrier::loopback, sets);
}

}  // namespace b10::bench
