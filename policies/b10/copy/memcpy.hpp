#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <b10/copy/host_runs.hpp>
#include <b10/copy_engine.hpp>
#include <b10/host_event.hpp>

namespace b10::copy {

/// Copies host memory on the calling thread: a copy has ended when gather or scatter returns. Use
/// it where KV lives in host memory. (A copy thread beside the lane's was tried and was slower,
/// bench/results/p1-write.md.) For KV on a GPU use a CUDA engine. Stateless. A span of any device
/// is refused with Error{copy_failed} before a byte is touched.
struct Memcpy {
  static constexpr std::string_view name = "copy::Memcpy";
  static constexpr bool ends_inline = true;

  struct Options {};
  struct Event {  ///< always done: on the host the copy is the event
    std::uint64_t digest = 0;
  };
  using SourceReady = HostEvent;  ///< where a CUDA engine takes CUDA events

  Memcpy() = default;
  Memcpy(Options const&, std::uint64_t) {}

  void gather(SpanRun from, std::byte* to, Event&) const {
    require_host(from, "copy::Memcpy", "gather");
    gather_host(from, to);
  }
  void scatter(std::byte const* from, SpanRun to, Event&) const {
    require_host(to, "copy::Memcpy", "scatter");
    scatter_host(from, to);
  }
  void gather_digested(SpanRun from, std::byte* to, Event& event) const {
    require_host(from, "copy::Memcpy", "gather");
    event.digest = gather_host_digested(from, to);
  }
  void scatter_digested(std::byte const* from, SpanRun to, Event& event) const {
    require_host(to, "copy::Memcpy", "scatter");
    event.digest = scatter_host_digested(from, to);
  }
  [[nodiscard]] std::uint64_t digest(Event const& event) const noexcept { return event.digest; }
  [[nodiscard]] bool has_room() const noexcept { return true; }
  [[nodiscard]] CopyState query(Event&) const noexcept { return CopyState::done; }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) const noexcept {
    return ready.state();
  }
  [[nodiscard]] std::string why() const { return {}; }
};

static_assert(DigestingCopyEngine<Memcpy>, "copy::Memcpy must model b10::DigestingCopyEngine");

}  // namespace b10::copy
