#pragma once

// One smallest complete model for each axis: a case derives from it and hides one part.

#include <memory>

#include <b10/completion.hpp>
#include <b10/quarantine.hpp>
#include <b10/staging.hpp>
#include <b10/tag_scheme.hpp>
#include <b10/transport.hpp>

namespace complete {

struct TagScheme {
  static constexpr std::string_view name = "tag::Complete";
  static constexpr bool identities_recur = false;
  b10::Tag tag(b10::MessageIdentity) const noexcept { return b10::Tag{1}; }
};

struct Slicing {
  static constexpr std::string_view name = "slicing::Complete";
  static constexpr unsigned depth = 1;
  static constexpr std::uint64_t slice_bytes(std::uint64_t bytes) noexcept { return bytes; }
};

struct CopyEngine {
  static constexpr std::string_view name = "copy::Complete";
  static constexpr bool ends_inline = true;
  struct Options {};
  struct Event {};
  struct SourceReady {};
  CopyEngine() = default;
  CopyEngine(Options const&, std::uint64_t) {}
  bool has_room() noexcept { return true; }
  std::string why() const { return {}; }
  b10::CopyState query(Event&) noexcept { return b10::CopyState::done; }
  b10::CopyState source_ready(SourceReady const&) noexcept { return b10::CopyState::done; }
  void gather(b10::SpanRun, std::byte*, Event&) {}
  void scatter(std::byte const*, b10::SpanRun, Event&) {}
};

struct Staging {
  static constexpr std::string_view name = "staging::Complete";
  static constexpr b10::Placement placement = b10::Placement::host;
  using Slicing = complete::Slicing;
  using CopyEngine = complete::CopyEngine;
  struct Options {};
  struct View {
    std::unique_ptr<std::byte[]> bytes;
    std::byte* data() noexcept { return bytes.get(); }
  };
  struct Quarantined {
    std::unique_ptr<std::byte[]> bytes;
  };
  CopyEngine engine;
  std::optional<View> try_acquire(b10::Use) { return View{}; }
  void release(View&&) noexcept {}
  Quarantined quarantine(View&& view) noexcept { return {std::move(view.bytes)}; }
  void drop(Quarantined&&) noexcept {}
  void recycle(Quarantined&&) noexcept {}
  void abandon(Quarantined&&) noexcept {}
  b10::StagingGauges gauges() const noexcept { return {}; }
  std::uint64_t slice_bytes() const noexcept { return 1; }
  CopyEngine& copies() noexcept { return engine; }
  void maintain() noexcept {}
};

struct Completion {
  static constexpr std::string_view name = "completion::Complete";
  static constexpr bool proves_landing = true;
};

struct Quarantine {
  static constexpr std::string_view name = "quarantine::Complete";
  static constexpr bool holds_views = true;
  static constexpr bool holds_identities = true;
  static constexpr b10::Sentence afterwards = b10::Sentence::drop;
  b10::Sentence sentence(b10::Duration, bool) const noexcept { return b10::Sentence::hold; }
};

struct Transport {
  static constexpr std::string_view name = "transport::Complete";
  static constexpr std::size_t control_bytes_max = 1024;
  struct Options {};
  struct Link {
    std::unique_ptr<int> owner;
    b10::LinkId id() noexcept { return b10::LinkId{1}; }
    bool control(std::span<std::byte const>) noexcept { return true; }
    void send(b10::Tag, std::byte const*, std::uint64_t, b10::Operation&) noexcept {}
    void receive(b10::Tag, std::byte*, std::uint64_t, b10::Operation&) noexcept {}
    void cancel(b10::Operation&) noexcept {}
    void bye() noexcept {}
    void retire() noexcept {}
    unsigned sink_unexpected() noexcept { return 0; }
  };
  void connect(b10::ConnectId, std::string_view, b10::Instant) {}
  std::string address() { return {}; }
  unsigned progress(auto&) { return 0; }
  void wait(b10::Instant) {}
  void wake() noexcept {}
  b10::Instant now() noexcept { return {}; }
  std::string explain() const { return {}; }
};

}  // namespace complete
