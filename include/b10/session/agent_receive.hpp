#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <b10/grant.hpp>
#include <b10/outcome.hpp>

namespace b10 {

/// A grant and what landed under it; shared by the expectation, the agent and the lane's callback.
class AgentReceive : public std::enable_shared_from_this<AgentReceive> {
 public:
  using Listener = std::function<void(RequestId, bool ok)>;

  AgentReceive(Grant grant, Listener listener)
      : grant_(std::move(grant)), request_(grant_->request()), listener_(std::move(listener)) {}

  /// Once, after it is shared.
  void listen() {
    grant_->on_outcome([weak = weak_from_this()](Outcome const& o) {
      if (auto const self = weak.lock()) self->ended(o);
    });
  }
  [[nodiscard]] std::uint64_t landed_bytes() const {
    std::lock_guard const lock(mutex_);
    return landed_;
  }
  [[nodiscard]] std::optional<Outcome> failure() const {
    std::lock_guard const lock(mutex_);
    return failure_;
  }
  void on_change(std::function<void()> callback) {
    std::lock_guard const lock(mutex_);
    on_change_ = std::move(callback);
  }
  [[nodiscard]] std::optional<Quiescent> revoke(Duration limit) {
    std::lock_guard const lock(revoking_);
    cancelled_ = true;
    if (!grant_) return std::nullopt;
    auto proof = grant_->revoke(limit);
    if (proof) grant_.reset();
    proven_ = !grant_;
    return proof;
  }
  [[nodiscard]] bool proven() const noexcept { return proven_; }

 private:
  void ended(Outcome const& o) {
    std::function<void()> changed;
    {
      std::lock_guard const lock(mutex_);
      if (o.ok())
        landed_ += o.bytes;
      else if (o.reason != Reason::superseded)  // a newer attempt of the same transfer goes on
        failure_ = o;
      changed = on_change_;
    }
    if (!cancelled_ && o.reason != Reason::superseded) tell(o.ok());
    if (changed) changed();
  }

  void tell(bool ok) const noexcept {
    try {
      if (listener_) listener_(request_, ok);
    } catch (...) {  // what an engine's listener throws is nobody's but its own failure
    }
  }

  std::mutex revoking_{};
  std::optional<Grant> grant_;
  RequestId const request_;
  Listener const listener_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> proven_{false};
  mutable std::mutex mutex_{};  // guards what follows
  std::uint64_t landed_ = 0;
  std::optional<Outcome> failure_{};
  std::function<void()> on_change_{};
};

/// Permission for peers to write one request's spans. Move-only; goes with a revoke.
class AgentExpectation {
 public:
  using Quiescent = b10::Quiescent;
  explicit AgentExpectation(std::shared_ptr<AgentReceive> receive) : receive_(std::move(receive)) {}
  AgentExpectation(AgentExpectation&&) = default;
  AgentExpectation& operator=(AgentExpectation&&) = default;

  [[nodiscard]] std::uint64_t landed_bytes() const { return receive_->landed_bytes(); }
  /// Of a write under it that did not land, if any.
  [[nodiscard]] std::optional<Outcome> failure() const { return receive_->failure(); }
  [[nodiscard]] std::optional<Quiescent> revoke(Duration limit) { return receive_->revoke(limit); }
  void on_change(std::function<void()> callback) { receive_->on_change(std::move(callback)); }

 private:
  std::shared_ptr<AgentReceive> receive_;
};

}  // namespace b10
