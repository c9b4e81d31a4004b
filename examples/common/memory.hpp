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

/// By how much that may grow between the first requests and the last. A sanitizer keeps what was
/// freed.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr std::uint64_t growth_max = std::uint64_t{512} << 20;
#else
inline constexpr std::uint64_t growth_max = std::uint64_t{16} << 20;
#endif

}  // namespace demo
