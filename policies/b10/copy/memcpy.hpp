#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include <b10/copy/past_cache.hpp>
#include <b10/copy_engine.hpp>
#include <b10/host_event.hpp>
#include <b10/outcome.hpp>

namespace b10::copy {

/// Copies host memory on the calling thread: a copy has ended when gather or scatter returns. A
/// gather is memcpy, a scatter writes past the cache. Use it where KV lives in host memory (tests,
/// CPU workers). For KV on a GPU use a CUDA engine. Stateless. A span of any other device is
/// refused with Error{copy_failed} before a byte is touched.
struct Memcpy {
  static constexpr std::string_view name = "copy::Memcpy";
  static constexpr bool ends_inline = true;

  struct Event {};                ///< always done: on the host the copy is the event
  using SourceReady = HostEvent;  ///< where a CUDA engine takes a CUDA event

  void gather(SpanRun from, std::byte* to, Event&) const {
    require_host(from, "gather");
    from.for_each([&](std::byte const* address, std::uint64_t bytes, Device) {
      std::memcpy(to, address, bytes);
      to += bytes;
    });
  }

  void scatter(std::byte const* from, SpanRun to, Event&) const {
    require_host(to, "scatter");
    to.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
      past_cache(address, from, bytes);
      from += bytes;
    });
    past_cache_done();  // once a chunk: a fence a span costs more than it saves
  }

  [[nodiscard]] CopyState query(Event&) const noexcept { return CopyState::done; }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) const noexcept {
    return ready.state();
  }

 private:
  /// Before the first byte moves, so that a refused copy has touched nothing.
  static void require_host(SpanRun run, char const* what) {
    run.for_each([&](std::byte const*, std::uint64_t, Device device) {
      if (device == Device::host) return;
      throw Error(Reason::copy_failed,
                  std::string("copy::Memcpy cannot ") + what + " device " +
                      std::to_string(to_integer(device)) +
                      ": it copies host memory only (device -1); use a CUDA copy engine");
    });
  }
};

static_assert(CopyEngine<Memcpy>, "copy::Memcpy must model b10::CopyEngine");

}  // namespace b10::copy
