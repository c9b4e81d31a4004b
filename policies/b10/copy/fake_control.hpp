#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/copy_engine.hpp>
#include <b10/digest.hpp>
#include <b10/outcome.hpp>
#include <b10/sim/timeline.hpp>

namespace b10::copy {

enum class Direction : std::uint8_t { gather, scatter };

/// What can go wrong with one simulated copy.
enum class CopyFault : std::uint8_t {
  hold,    ///< it stops in the middle and stays pending until it is released
  fail,    ///< it ends in the middle as failed
  refuse,  ///< it does not start
  slow,    ///< it takes a hundred times as long
};
inline constexpr std::string_view copy_fault_names[] = {"hold", "fail", "refuse", "slow"};

/// Aims a fault at copies. A copy meets the first rule that fits it.
struct CopyRule {
  CopyFault fault{};
  std::optional<Direction> direction{};  ///< none: any
  std::uint32_t skip = 0;                ///< so many that fit pass unharmed first
  std::uint32_t times = 1;
};

/// What a test holds of one copy::Fake engine: how long its copies take, what goes wrong with them,
/// and which memory they may be touching now. Bytes move in pieces, at their own virtual times
/// between the start and the end of a copy, whether or not anybody asks for its event. One thread.
class FakeControl final : public sim::Timeline::Client {
 public:
  struct Options {
    Duration time_min = microseconds(1);
    Duration time_max = microseconds(10);
    std::uint32_t pieces_max = 3;
    std::size_t slots = 64;  ///< copies under way at once; has_room() is false beyond
    sim::NodeId node{};      ///< whose journal entries
  };
  FakeControl(std::shared_ptr<sim::Timeline> timeline, Options const& options)
      : timeline_(std::move(timeline)), options_(options), client_(timeline_->join(*this)) {}
  FakeControl(FakeControl const&) = delete;
  FakeControl& operator=(FakeControl const&) = delete;
  ~FakeControl() { timeline_->leave(client_); }

  void add(CopyRule const& rule) { rules_.push_back(rule); }
  void clear_rules() noexcept { rules_.clear(); }
  /// Held copies go on.
  void release_all() {
    for (std::uint32_t i = 0; i < copies_.size(); ++i) {
      if (copies_[i].fault != CopyFault::hold) continue;
      copies_[i].fault.reset();
      if (copies_[i].state == CopyState::pending) schedule(i);
    }
  }
  /// SIGSTOP of a process whose copies run on the CPU: they stand still until thaw(), and then go
  /// on. Copies of a GPU would not.
  void freeze() noexcept { frozen_ = true; }
  void thaw() {
    frozen_ = false;
    for (auto const i : std::exchange(stood_still_, {})) schedule(i);
  }
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  /// Whether a copy that has not ended may read (gather) or write (scatter) some of these bytes.
  [[nodiscard]] bool touches(Direction direction, std::byte const* from,
                             std::uint64_t bytes) const {
    bool found = false;
    for (Copy const& c : copies_) {
      if (pending_ == 0 || c.state != CopyState::pending || c.direction != direction) continue;
      c.run.for_each([&](std::byte const* p, std::uint64_t n, Device) {
        found = found || (p < from + bytes && from < p + n);
      });
    }
    return found;
  }

  /// Whether a copy that has not ended may use some of these bytes as staging.
  [[nodiscard]] bool touches_staging(std::byte const* from, std::uint64_t bytes) const noexcept {
    return std::any_of(copies_.begin(), copies_.end(), [&](Copy const& c) {
      return c.state == CopyState::pending && c.staging < from + bytes &&
             from < c.staging + c.run.bytes;
    });
  }

  // --- For Fake ---

  struct Ticket {
    std::uint32_t index = 0;
    bool started = false;
    CopyState ended = CopyState::done;
    std::uint64_t digest = 0;  ///< of all that was moved, once ended
  };
  [[nodiscard]] bool has_room() const noexcept { return pending_ < options_.slots; }
  [[nodiscard]] Ticket start(Direction direction, SpanRun run, std::byte* staging) {
    run.for_each([](std::byte const*, std::uint64_t, Device device) {
      if (device != Device::host)
        throw Error(Reason::copy_failed, "copy::Fake copies host memory only");
    });
    auto const fault = judge(direction);
    if (fault)
      note(sim::What::copy_fault, static_cast<std::uint64_t>(direction),
           static_cast<std::uint8_t>(*fault));
    if (ended_) throw Error(Reason::copy_failed, "the process of this copy is gone");
    if (fault == CopyFault::refuse)
      throw Error(Reason::copy_failed, "this copy was made not to start");
    auto const i = take();
    Copy& c = copies_[i];
    auto const& o = options_;
    c = {direction, CopyState::pending, fault, run, staging, {}, 0, {}, {}};
    c.pieces = 1 + timeline_->random().below(o.pieces_max);
    if (fault == CopyFault::hold || fault == CopyFault::fail) c.pieces = std::max(c.pieces, 2u);
    auto const time = timeline_->random().between(o.time_min, o.time_max);
    c.step = Duration{time.ns * (fault == CopyFault::slow ? 100 : 1) / c.pieces};
    ++pending_;
    note(direction == Direction::gather ? sim::What::gather_started : sim::What::scatter_started,
         run.bytes);
    schedule(i);
    return {i, true, CopyState::pending, 0};
  }
  [[nodiscard]] CopyState query(Ticket& t) {
    if (!t.started) return t.ended;
    CopyState const s = copies_[t.index].state;
    if (s == CopyState::pending) return s;
    t.started = false;
    t.ended = s;
    t.digest = copies_[t.index].digest.value();
    free_.push_back(t.index);
    return s;
  }
  /// Its process is gone, and its copies with it; none starts any more.
  void end() noexcept {
    for (Copy& c : copies_) c.state = CopyState::failed;
    pending_ = 0;
    ended_ = true;
  }

 private:
  struct Copy {
    Direction direction;
    CopyState state;
    std::optional<CopyFault> fault;
    SpanRun run;
    std::byte* staging;
    Duration step;
    std::uint64_t moved;
    std::uint32_t pieces;  ///< still to come
    Digest digest;         ///< of the bytes as they were when they were moved
  };

  void on_time(std::uint32_t, std::uint64_t which) override {
    Copy& c = copies_[which];
    if (c.state != CopyState::pending) return;
    if (frozen_) return stood_still_.push_back(static_cast<std::uint32_t>(which));
    bool const gather = c.direction == Direction::gather;
    std::uint64_t const left = c.run.bytes - c.moved;
    bool const last = --c.pieces == 0;
    if (last && c.fault == CopyFault::fail) return finish(c, CopyState::failed);
    if (last && c.fault == CopyFault::hold) {
      ++c.pieces;
      return;
    }
    std::uint64_t const n = last ? left : timeline_->random().between(std::uint64_t{0}, left);
    move(c, n);
    if (last) return finish(c, CopyState::done);
    note(gather ? sim::What::gather_moving : sim::What::scatter_moving, n);
    schedule(static_cast<std::uint32_t>(which));
  }
  void finish(Copy& c, CopyState state) {
    c.state = state;
    --pending_;
    note(c.direction == Direction::gather ? sim::What::gather_ended : sim::What::scatter_ended,
         c.run.bytes, state == CopyState::failed);
  }
  /// The next n bytes.
  static void move(Copy& c, std::uint64_t n) {
    std::uint64_t at = 0;
    std::uint64_t const from = c.moved, to = c.moved + n;
    c.run.for_each([&](std::byte* p, std::uint64_t bytes, Device) {
      std::uint64_t const first = std::max(at, from), end = std::min(at + bytes, to);
      if (first < end) {
        std::byte* const staged = c.staging + first;
        std::byte* const kv = p + (first - at);
        c.direction == Direction::gather ? std::memcpy(staged, kv, end - first)
                                         : std::memcpy(kv, staged, end - first);
        c.digest.update(kv, end - first);
      }
      at += bytes;
    });
    c.moved = to;
  }
  [[nodiscard]] std::optional<CopyFault> judge(Direction direction) {
    for (CopyRule& r : rules_) {
      if (r.times == 0 || (r.direction && *r.direction != direction)) continue;
      if (r.skip > 0) {
        --r.skip;
        continue;
      }
      --r.times;
      return r.fault;
    }
    return std::nullopt;
  }
  void schedule(std::uint32_t i) { timeline_->after(copies_[i].step, client_, 0, i); }
  void note(sim::What what, std::uint64_t bytes, std::uint8_t detail = 0) {
    timeline_->journal.note(
        {timeline_->now(), what, detail, options_.node, sim::NodeId::none, std::nullopt, bytes});
  }
  [[nodiscard]] std::uint32_t take() {
    if (free_.empty()) {
      copies_.emplace_back();
      return static_cast<std::uint32_t>(copies_.size() - 1);
    }
    auto const i = free_.back();
    free_.pop_back();
    return i;
  }

  std::shared_ptr<sim::Timeline> timeline_;
  Options const options_;
  sim::Timeline::ClientId client_;
  std::deque<Copy> copies_{};
  std::vector<std::uint32_t> free_{};
  std::vector<CopyRule> rules_{};
  std::size_t pending_ = 0;
  bool ended_ = false;
  bool frozen_ = false;
  std::vector<std::uint32_t> stood_still_{};  ///< their next piece was due meanwhile
};

}  // namespace b10::copy
