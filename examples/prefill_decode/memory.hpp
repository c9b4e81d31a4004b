#pragma once

#include <cstdint>
#include <fstream>

#include <unistd.h>

namespace demo {

/// Bytes of this process's own that are in memory. Not those of files and of shared staging: a
/// segment has its size from the start, but its pages count for a process only once it touches
/// them.
inline std::uint64_t resident_bytes() {
  std::uint64_t resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> resident >> resident >> shared;
  return (resident - shared) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace demo
