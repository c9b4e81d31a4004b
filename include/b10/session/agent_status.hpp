#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/transfer.hpp>

namespace b10 {

enum class Progressing : std::uint8_t { in_progress, succeeded, failed };

/// Handle of one submission; copyable, any thread. Destroying it ends nothing and frees nothing.
class AgentStatus {
 public:
  AgentStatus(Transfer transfer, Duration deadline)
      : transfer_(std::move(transfer)), deadline_(deadline) {}
  /// One that ended before anything was sent.
  [[nodiscard]] static AgentStatus ended(Outcome outcome) {
    AgentStatus s;
    s.outcome_ = std::move(outcome);
    return s;
  }

  [[nodiscard]] std::optional<Outcome> outcome() const {
    return outcome_ ? outcome_ : transfer_->outcome();
  }
  [[nodiscard]] Progressing state() const {
    auto const o = outcome();
    if (!o) return Progressing::in_progress;
    return o->ok() ? Progressing::succeeded : Progressing::failed;
  }
  /// True only on success.
  [[nodiscard]] bool is_completed() const { return state() == Progressing::succeeded; }
  /// With a limit: in_progress if it has not ended by then, and nothing has changed. Without one
  /// the transfer's own deadline ends it.
  [[nodiscard]] Progressing wait(std::optional<Duration> limit = std::nullopt) const {
    if (!outcome_) (void)transfer_->wait(limit.value_or(deadline_ + seconds(5)));
    return state();
  }
  /// Asks for the end; nothing is claimed quiet that is not.
  void cancel() const {
    if (transfer_) transfer_->cancel();
  }
  /// No gather can read the sources any more.
  [[nodiscard]] bool sources_released() const {
    return outcome_ ? true : transfer_->sources_released();
  }
  void on_done(std::function<void()> callback) const {
    if (!transfer_) return callback();
    transfer_->on_done([callback = std::move(callback)](Outcome const&) { callback(); });
  }
  [[nodiscard]] std::string last_status() const {
    auto const o = outcome();
    if (!o) return "in progress";
    if (o->ok()) return "landed, " + std::to_string(o->bytes) + " bytes";
    return std::string(to_string(o->status)) + " (" + std::string(to_string(o->reason)) +
           "): " + o->why;
  }

 private:
  AgentStatus() = default;
  std::optional<Transfer> transfer_{};
  std::optional<Outcome> outcome_{};
  Duration deadline_{};
};

}  // namespace b10
