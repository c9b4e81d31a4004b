#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <b10/copy/past_cache.hpp>
#include <b10/copy_engine.hpp>
#include <b10/digest.hpp>
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
/// reached(end) after each piece: `to` is filled up to there.
template <class Reached>
void gather_host(SpanRun from, std::byte* to, Reached reached) noexcept {
  from.for_each([&](std::byte const* address, std::uint64_t bytes, Device) {
    std::memcpy(to, address, bytes);
    to += bytes;
    reached(to);
  });
}
inline void gather_host(SpanRun from, std::byte* to) noexcept {
  gather_host(from, to, [](std::byte const*) {});
}

/// From `from`, contiguous, to scattered host memory, past the cache. reached(end) after each
/// piece: `from` has been copied up to there.
template <class Reached>
void scatter_host(std::byte const* from, SpanRun to, Reached reached) noexcept {
  to.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
    past_cache(address, from, bytes);
    from += bytes;
    reached(from);
  });
  past_cache_done();  // once a chunk: a fence a span costs more than it saves
}
inline void scatter_host(std::byte const* from, SpanRun to) noexcept {
  scatter_host(from, to, [](std::byte const*) {});
}

/// Follows a copy along its contiguous side with the digest, a cache's worth behind: each byte is
/// digested while the copy has it in the cache.
class DigestBehind {
 public:
  explicit DigestBehind(std::byte const* contiguous) noexcept : next_(contiguous) {}
  /// The copy is done up to here.
  void reached(std::byte const* end) noexcept {
    if (end - next_ >= batch_bytes) digest_to(end);
  }
  [[nodiscard]] std::uint64_t value_at(std::byte const* end) noexcept {
    digest_to(end);
    return digest_.value();
  }

 private:
  static constexpr std::ptrdiff_t batch_bytes = 16 << 10;  // half of a first-level cache
  void digest_to(std::byte const* end) noexcept {
    digest_.update(next_, static_cast<std::uint64_t>(end - next_));
    next_ = end;
  }

  Digest digest_{};
  std::byte const* next_;
};

/// gather_host, and the digest of what it gathered.
[[nodiscard]] inline std::uint64_t gather_host_digested(SpanRun from, std::byte* to) noexcept {
  DigestBehind digest(to);
  gather_host(from, to, [&](std::byte const* end) { digest.reached(end); });
  return digest.value_at(to + from.bytes);
}

/// scatter_host, and the digest of what it scattered.
[[nodiscard]] inline std::uint64_t scatter_host_digested(std::byte const* from,
                                                         SpanRun to) noexcept {
  DigestBehind digest(from);
  scatter_host(from, to, [&](std::byte const* end) { digest.reached(end); });
  return digest.value_at(from + to.bytes);
}

}  // namespace b10::copy
