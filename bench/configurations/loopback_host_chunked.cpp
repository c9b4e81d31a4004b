#include "loopback.hpp"

namespace b10::bench {

void add_loopback_host_chunked(Catalog& to) {
  add_loopback<staging::Host<slicing::Chunked<(256u << 10)>>>(to);
}

}  // namespace b10::bench
