#pragma once

#include <cstdint>
#include <fstream>

#include <unistd.h>

namespace demo {

/// Bytes of this process that are in memory.
inline std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace demo
