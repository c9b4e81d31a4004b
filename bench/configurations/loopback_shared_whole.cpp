#include "loopback.hpp"

namespace b10::bench {

void add_loopback_shared_whole(Catalog& to) {
  add_loopback<staging::SharedHost<slicing::Whole>>(to);
}

}  // namespace b10::bench
