#include "loopback.hpp"

namespace b10::bench {

void add_loopback_shared_pipelined(Catalog& to) {
  add_loopback<staging::SharedHost<slicing::Pipelined<(256u << 10), 4>>>(to);
}

}  // namespace b10::bench
