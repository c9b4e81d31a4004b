#include "loopback.hpp"

namespace b10::bench {

void add_loopback_shared_chunked(Catalog& to) {
  add_loopback<staging::SharedHost<slicing::Chunked<(256u << 10)>>>(to);
}

}  // namespace b10::bench
