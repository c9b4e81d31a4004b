#include "loopback.hpp"

namespace b10::bench {

void add_loopback_host_whole(Catalog& to) { add_loopback<staging::Host<slicing::Whole>>(to); }

}  // namespace b10::bench
