#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/copy_engine.hpp>
#include <b10/digest.hpp>
#include <b10/host_event.hpp>
#include <b10/outcome.hpp>

namespace b10::copy {

enum class CopyKind : std::uint8_t { gather, scatter };

/// What a test holds of a Held engine: which copies were started, and when they end. Copies are
/// numbered from 0 in the order they were started. Any thread.
class HeldControl {
 public:
  [[nodiscard]] std::size_t started() const {
    std::lock_guard const lock(mutex_);
    return copies_.size();
  }
  [[nodiscard]] std::size_t started(CopyKind kind) const {
    std::lock_guard const lock(mutex_);
    std::size_t n = 0;
    for (auto const& copy : copies_) n += copy.kind == kind;
    return n;
  }
  [[nodiscard]] std::size_t pending() const {
    std::lock_guard const lock(mutex_);
    std::size_t n = 0;
    for (auto const& copy : copies_) n += copy.state == CopyState::pending;
    return n;
  }
  [[nodiscard]] CopyKind kind(std::size_t i) const {
    std::lock_guard const lock(mutex_);
    return copies_.at(i).kind;
  }

  /// Does copy i now: only here are its bytes touched. Nothing if it has ended.
  void release(std::size_t i) {
    std::lock_guard const lock(mutex_);
    finish(copies_.at(i));
  }
  void release_all() {
    std::lock_guard const lock(mutex_);
    for (auto& copy : copies_) finish(copy);
  }
  /// Copy i ends as failed; its bytes are never touched.
  void fail(std::size_t i) {
    std::lock_guard const lock(mutex_);
    auto& copy = copies_.at(i);
    if (copy.state == CopyState::pending) copy.state = CopyState::failed;
  }

  /// From now on gathers / scatters wait for release (the start), or are done at once.
  void hold(CopyKind kind) { set_held(kind, true); }
  void run_freely(CopyKind kind) { set_held(kind, false); }
  /// From now on copies of this kind end as failed / the next n are refused with
  /// Error{copy_failed}.
  void fail_all(CopyKind kind) {
    std::lock_guard const lock(mutex_);
    rule(kind).fails = true;
  }
  /// From now on there is room for n more copies.
  void set_room(std::size_t n) {
    std::lock_guard const lock(mutex_);
    room_ = copies_.size() + n;
  }
  void refuse_next(CopyKind kind, std::size_t n) {
    std::lock_guard const lock(mutex_);
    rule(kind).refused = n;
  }

 private:
  friend class Held;
  struct Copy {
    CopyKind kind;
    CopyState state;
    SpanRun run;
    std::byte* staging;
    std::uint64_t digest = 0;
  };
  struct Rule {
    bool held = true;
    bool fails = false;
    std::size_t refused = 0;
  };

  [[nodiscard]] std::size_t start(CopyKind kind, SpanRun run, std::byte* staging) {
    run.for_each([](std::byte*, std::uint64_t, Device device) {
      if (device != Device::host)
        throw Error(Reason::copy_failed, "copy::Held copies host memory only");
    });
    std::lock_guard const lock(mutex_);
    auto& r = rule(kind);
    if (r.refused > 0) {
      --r.refused;
      throw Error(Reason::copy_failed, "copy::Held was told to refuse this copy");
    }
    copies_.push_back({kind, r.fails ? CopyState::failed : CopyState::pending, run, staging, 0});
    if (!r.held) finish(copies_.back());
    return copies_.size() - 1;
  }
  [[nodiscard]] CopyState state(std::size_t i) const {
    std::lock_guard const lock(mutex_);
    return copies_.at(i).state;
  }
  [[nodiscard]] std::uint64_t digest(std::size_t i) const {
    std::lock_guard const lock(mutex_);
    return copies_.at(i).digest;
  }
  [[nodiscard]] bool has_room() const {
    std::lock_guard const lock(mutex_);
    return copies_.size() < room_;
  }
  static void finish(Copy& copy) {
    if (copy.state != CopyState::pending) return;
    auto* at = copy.staging;
    Digest digest;
    copy.run.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
      copy.kind == CopyKind::gather ? std::memcpy(at, address, bytes)
                                    : std::memcpy(address, at, bytes);
      digest.update(at, bytes);
      at += bytes;
    });
    copy.digest = digest.value();
    copy.state = CopyState::done;
  }
  void set_held(CopyKind kind, bool held) {
    std::lock_guard const lock(mutex_);
    rule(kind).held = held;
  }
  Rule& rule(CopyKind kind) { return rules_[static_cast<std::size_t>(kind)]; }

  mutable std::mutex mutex_{};
  std::vector<Copy> copies_{};
  std::size_t room_ = std::numeric_limits<std::size_t>::max();
  Rule rules_[2]{};
};

/// A copy engine for tests whose copies end when the test says so. Copies of the engine share one
/// control; give one to a staging policy through its Options and keep control().
class Held {
 public:
  static constexpr std::string_view name = "copy::Held";
  static constexpr bool ends_inline = false;

  struct Event {
    std::size_t index = 0;  ///< among the copies started
    bool started = false;
  };
  using SourceReady = HostEvent;
  using Options = Held;  ///< copies share one control

  Held() = default;
  Held(Options const& control, std::uint64_t) : Held(control) {}

  void gather(SpanRun from, std::byte* to, Event& event) {
    event = {control_->start(CopyKind::gather, from, to), true};
  }
  void scatter(std::byte const* from, SpanRun to, Event& event) {
    event = {control_->start(CopyKind::scatter, to, const_cast<std::byte*>(from)), true};
  }
  void gather_digested(SpanRun from, std::byte* to, Event& event) { gather(from, to, event); }
  void scatter_digested(std::byte const* from, SpanRun to, Event& event) {
    scatter(from, to, event);
  }
  [[nodiscard]] std::uint64_t digest(Event const& event) const noexcept {
    return event.started ? control_->digest(event.index) : 0;
  }
  [[nodiscard]] bool has_room() const noexcept { return control_->has_room(); }
  [[nodiscard]] CopyState query(Event& event) const noexcept {
    return event.started ? control_->state(event.index) : CopyState::done;
  }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) const noexcept {
    return ready.state();
  }

  [[nodiscard]] std::string why() const { return "the test failed it"; }

  [[nodiscard]] std::shared_ptr<HeldControl> control() const noexcept { return control_; }

 private:
  std::shared_ptr<HeldControl> control_ = std::make_shared<HeldControl>();
};

static_assert(DigestingCopyEngine<Held>, "copy::Held must model b10::DigestingCopyEngine");

}  // namespace b10::copy
