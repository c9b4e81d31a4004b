#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <b10/host_event.hpp>
#include <b10/session/transfer_agent.hpp>

namespace support {

/// A recording transfer agent: a write lands when the test says so (or at once), and only under an
/// expectation. Agents of one World reach each other.
class FakeAgent {
 public:
  struct World {
    std::mutex mutex;
    std::map<std::string, FakeAgent*> agents;
    std::int64_t now = 1'000;
  };
  /// Proof, as b10::Quiescent.
  struct Quiescent {
    b10::RequestId request{};
    std::vector<b10::LocalSpan> spans{};
  };

 private:
  struct Write {
    std::mutex mutex;
    std::vector<b10::LocalSpan> sources;
    std::vector<b10::RemoteSpan> destinations;
    std::string remote;
    b10::RequestId request{};
    b10::HostEvent ready;
    std::optional<b10::Outcome> outcome;
    bool released = false;
    bool cancelled = false;
    std::function<void()> done;

    void finish(b10::Outcome o, bool sources_released) {
      std::function<void()> call;
      {
        std::lock_guard const lock(mutex);
        if (!outcome) outcome = std::move(o);
        released = released || sources_released;
        call = done;
      }
      if (call) call();
    }
  };
  struct Permission {
    b10::RequestId request{};
    std::vector<b10::LocalSpan> spans;
    std::set<std::string> from;
    bool revoked = false, given = false, copying = false;
    std::uint64_t landed = 0;
    std::optional<b10::Outcome> failure;
    std::function<void()> change;
  };

 public:
  using SourceReady = b10::HostEvent;

  class Status {
   public:
    explicit Status(std::shared_ptr<Write> w) : write_(std::move(w)) {}
    [[nodiscard]] std::optional<b10::Outcome> outcome() const {
      std::lock_guard const lock(write_->mutex);
      return write_->outcome;
    }
    [[nodiscard]] bool sources_released() const {
      std::lock_guard const lock(write_->mutex);
      return write_->released;
    }
    void cancel() const {
      std::lock_guard const lock(write_->mutex);
      write_->cancelled = true;
    }
    void on_done(std::function<void()> f) const {
      std::lock_guard const lock(write_->mutex);
      write_->done = std::move(f);
    }

   private:
    std::shared_ptr<Write> write_;
  };

  class Expectation {
   public:
    using Quiescent = FakeAgent::Quiescent;
    Expectation(std::shared_ptr<World> w, std::shared_ptr<Permission> p)
        : world_(std::move(w)), permission_(std::move(p)) {}
    Expectation(Expectation&&) = default;
    Expectation& operator=(Expectation&&) = default;
    [[nodiscard]] std::uint64_t landed_bytes() const {
      std::lock_guard const lock(world_->mutex);
      return permission_->landed;
    }
    [[nodiscard]] std::optional<b10::Outcome> failure() const {
      std::lock_guard const lock(world_->mutex);
      return permission_->failure;
    }
    [[nodiscard]] std::optional<Quiescent> revoke(b10::Duration) {
      std::lock_guard const lock(world_->mutex);
      permission_->revoked = true;
      if (permission_->copying || std::exchange(permission_->given, true)) return std::nullopt;
      return Quiescent{permission_->request, permission_->spans};
    }
    void on_change(std::function<void()> f) {
      std::lock_guard const lock(world_->mutex);
      permission_->change = std::move(f);
    }

   private:
    std::shared_ptr<World> world_;
    std::shared_ptr<Permission> permission_;
  };

  FakeAgent(std::shared_ptr<World> world, std::string name)
      : world_(std::move(world)), name_(std::move(name)) {
    std::lock_guard const lock(world_->mutex);
    world_->agents[name_] = this;
  }
  ~FakeAgent() {
    std::lock_guard const lock(world_->mutex);
    world_->agents.erase(name_);
  }

  [[nodiscard]] b10::Instant now() const {
    std::lock_guard const lock(world_->mutex);
    return {world_->now};
  }
  [[nodiscard]] std::vector<std::byte> local_descriptor() const { return {std::byte{1}}; }
  void load_remote(std::string const& name, std::span<std::byte const>) {
    std::lock_guard const lock(mutex_);
    loaded_.insert(name);
  }
  void invalidate_remote(std::string const& name) {
    std::lock_guard const lock(mutex_);
    loaded_.erase(name);
  }
  [[nodiscard]] b10::Reach reach(std::string const& name) const {
    std::lock_guard const lock(mutex_);
    if (loaded_.count(name) == 0) return b10::Reach::unknown;
    return unreachable ? b10::Reach::connecting : b10::Reach::connected;
  }
  [[nodiscard]] Status submit(b10::Submission<b10::HostEvent> const& s) {
    if (before_submit) before_submit();
    auto w = std::make_shared<Write>();
    w->sources.assign(s.sources.begin(), s.sources.end());
    w->destinations.assign(s.destinations.begin(), s.destinations.end());
    w->remote = s.remote;
    w->request = s.request;
    w->ready = s.ready.value_or(b10::HostEvent{});
    {
      std::lock_guard const lock(mutex_);
      writes_.push_back(w);
    }
    if (automatic) land(writes() - 1);
    return Status(w);
  }
  [[nodiscard]] Expectation expect(b10::RequestId request, std::span<b10::LocalSpan const> spans,
                                   std::span<std::string const> from, b10::Duration) {
    auto p = std::make_shared<Permission>();
    p->request = request;
    p->from.insert(from.begin(), from.end());
    p->spans.assign(spans.begin(), spans.end());
    std::lock_guard const lock(world_->mutex);
    permissions_[request] = p;
    return Expectation(world_, p);
  }

  // What a test does.

  [[nodiscard]] std::size_t writes() const {
    std::lock_guard const lock(mutex_);
    return writes_.size();
  }
  [[nodiscard]] std::vector<b10::LocalSpan> sources(std::size_t i) const { return at(i)->sources; }
  [[nodiscard]] bool cancelled(std::size_t i) const {
    auto const w = at(i);
    std::lock_guard const lock(w->mutex);
    return w->cancelled;
  }
  /// Write i goes on as far as it can: it waits for its event, then lands or is cancelled.
  void land(std::size_t i) {
    auto const w = at(i);
    bool stop = false;
    {
      std::lock_guard const lock(w->mutex);
      if (w->outcome || w->ready.state() == b10::CopyState::pending) return;
      stop = w->cancelled;
    }
    if (stop) return w->finish(cancelled_outcome(), true);
    std::uint64_t bytes = 0;
    for (auto const& s : w->sources) bytes += s.bytes;
    w->finish(deliver(*w, bytes), true);
  }
  void land_all() {
    for (std::size_t i = 0; i < writes(); ++i) land(i);
  }
  /// Write i ends as failed; `released`: whether its sources are quiet too.
  void fail(std::size_t i, bool released = true) {
    at(i)->finish({b10::Status::failed, b10::Reason::transport_failed, 0, released, true, "cut"},
                  released);
  }
  /// It was sent and has landed, its RESULT is lost.
  void lose_result(std::size_t i) {
    auto const w = at(i);
    std::uint64_t bytes = 0;
    for (auto const& s : w->sources) bytes += s.bytes;
    (void)deliver(*w, bytes);
    w->finish({b10::Status::unconfirmed, b10::Reason::deadline, bytes, true, true, "no RESULT"},
              true);
  }
  void release(std::size_t i) { at(i)->finish({}, true); }
  /// A write into the request's pages has ended badly here.
  void fail_receive(b10::RequestId request, b10::Reason reason) {
    std::lock_guard const lock(world_->mutex);
    permissions_.at(request)->failure =
        b10::Outcome{b10::Status::failed, reason, 0, true, true, "the sender gave up"};
  }
  /// A scatter into the request's pages is (not) running.
  void copying(b10::RequestId request, bool running) {
    std::lock_guard const lock(world_->mutex);
    permissions_.at(request)->copying = running;
  }

  bool automatic = true;
  std::atomic<bool> unreachable{false};
  std::function<void()> before_submit;

 private:
  [[nodiscard]] std::shared_ptr<Write> at(std::size_t i) const {
    std::lock_guard const lock(mutex_);
    return writes_.at(i);
  }
  static b10::Outcome cancelled_outcome() {
    return {b10::Status::cancelled, b10::Reason::cancelled, 0, true, true, "cancelled"};
  }
  [[nodiscard]] b10::Outcome deliver(Write& w, std::uint64_t bytes) {
    std::function<void()> change;
    {
      std::lock_guard const lock(world_->mutex);
      auto const peer = world_->agents.find(w.remote);
      auto* p = peer == world_->agents.end() ? nullptr : peer->second->find(w.request);
      if (!p || p->revoked || p->from.count(name_) == 0 || !inside(*p, w.destinations))
        return {b10::Status::failed, b10::Reason::refused, 0, true, true, "not granted"};
      for (std::size_t i = 0; i < w.sources.size(); ++i)
        std::memcpy(reinterpret_cast<void*>(w.destinations[i].address), w.sources[i].address,
                    w.sources[i].bytes);
      p->landed += bytes;
      change = p->change;
    }
    if (change) change();
    return {b10::Status::landed, b10::Reason::none, bytes, true, true, {}};
  }
  Permission* find(b10::RequestId request) {
    auto const it = permissions_.find(request);
    return it == permissions_.end() ? nullptr : it->second.get();
  }
  static bool inside(Permission const& p, std::vector<b10::RemoteSpan> const& list) {
    for (auto const& d : list) {
      bool found = false;
      for (auto const& s : p.spans) {
        auto const begin = b10::as_remote(s).address;
        found |= d.address >= begin && d.address + d.bytes <= begin + s.bytes;
      }
      if (!found) return false;
    }
    return true;
  }

  std::shared_ptr<World> const world_;
  std::string const name_;
  std::map<b10::RequestId, std::shared_ptr<Permission>> permissions_;  // under the world's lock
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Write>> writes_;
  std::set<std::string> loaded_;
};
static_assert(b10::TransferAgent<FakeAgent>);

}  // namespace support
