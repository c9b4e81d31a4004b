#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include <b10/copy/past_cache.hpp>
#include <b10/copy_engine.hpp>
#include <b10/outcome.hpp>

namespace b10::copy {

/// Throws Error{copy_failed} for a span of a device: engines of host memory call it before the
/// first byte moves, so that a refused copy has touched nothing. `engine` and `what` name the
/// caller.
inline void require_host(SpanRun run, char const* engine, char const* what) {
  run.for_each([&](std::byte const*, std::uint64_t, Device device) {
    if (device == Device::host) return;
    throw Error(Reason::copy_failed,
                std::string(engine) + " cannot " + what + " device " +
                    std::to_string(to_integer(device)) +
                    ": it copies host memory only (device -1); use a CUDA copy engine");
  });
}

/// From scattered host memory to `to`, contiguous. Memory that is read soon: through the cache.
inline void gather_host(SpanRun from, std::byte* to) noexcept {
  from.for_each([&](std::byte const* address, std::uint64_t bytes, Device) {
    std::memcpy(to, address, bytes);
    to += bytes;
  });
}

/// From `from`, contiguous, to scattered host memory, past the cache.
inline void scatter_host(std::byte const* from, SpanRun to) noexcept {
  to.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
    past_cache(address, from, bytes);
    from += bytes;
  });
  past_cache_done();  // once a chunk: a fence a span costs more than it saves
}

}  // namespace b10::copy
