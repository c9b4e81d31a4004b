// One staging with everything else, over Loopback.
#pragma once

#include "pair_of.hpp"

namespace b10::bench {

/// b10::HostTransceiver, but for the transport.
using LoopbackDefault = with<host_reference, transport::Loopback>;

template <class... Stagings>
void add_loopback(Catalog& to) {
  constexpr auto sets =
      matrix(policies<Stagings...>, policies<tag::Hashed, tag::Low12>,
             policies<completion::CopyEvent, completion::SendComplete, completion::Digested>,
             policies<quarantine::Ttl<>, quarantine::StagingOnly<>, quarantine::None>,
             policies<transport::Loopback>);
  add_matrix<LoopbackDefault>(to, Carrier::loopback, sets);
}

}  // namespace b10::bench
