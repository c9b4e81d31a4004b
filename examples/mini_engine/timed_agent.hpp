// A transfer agent that notes when each transfer ran. The session layer runs over anything that
// moves bytes, so what it does can be watched from below without a word in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/session/transfer_agent.hpp>
#include <b10/steady_clock.hpp>

namespace mini {

/// One submission: when it was made, when its pages were ready, when it had landed.
struct TransferTimes {
  b10::RequestId request{};
  b10::Instant submitted{};
  b10::Instant ready{};
  b10::Instant ended{};
  std::uint64_t bytes = 0;
  bool landed = false;
  /// From when on it could run.
  [[nodiscard]] b10::Instant begin() const { return std::max(submitted, ready); }
};

/// When the pages of a chunk were computed; 0 before. Shared by who computes and who notes.
using Stamp = std::shared_ptr<std::atomic<std::int64_t>>;

template <b10::TransferAgent A>
class TimedAgent {
  struct Record {
    TransferTimes times;
    Stamp stamp;
    std::shared_ptr<void> event_owner;
    std::atomic<bool> noted{false};
  };

 public:
  struct SourceReady {
    typename A::SourceReady event{};
    Stamp stamp{};
    std::shared_ptr<void> event_owner{};  ///< kept until the transfer has ended
  };
  using Expectation = typename A::Expectation;

  class Status {
   public:
    Status(typename A::Status status, std::shared_ptr<Record> record, TimedAgent& agent)
        : status_(std::move(status)), record_(std::move(record)), agent_(&agent) {}
    [[nodiscard]] std::optional<b10::Outcome> outcome() const {
      auto outcome = status_.outcome();
      if (outcome) agent_->note(*record_, *outcome);  // who sees it first: the caller or on_done
      return outcome;
    }
    [[nodiscard]] bool sources_released() const { return status_.sources_released(); }
    void cancel() const { status_.cancel(); }
    void on_done(std::function<void()> f) const {
      status_.on_done([self = *this, f = std::move(f)] {
        (void)self.outcome();
        f();
      });
    }

   private:
    typename A::Status status_;
    std::shared_ptr<Record> record_;
    TimedAgent* agent_;
  };

  explicit TimedAgent(A& agent) : agent_(agent) {}

  [[nodiscard]] Status submit(b10::Submission<SourceReady> const& s) {
    auto record = std::make_shared<Record>();
    record->times.request = s.request;
    record->times.submitted = b10::steady_now();
    for (auto const& span : s.sources) record->times.bytes += span.bytes;
    b10::Submission<typename A::SourceReady> inner{s.op,      s.sources, s.destinations, s.remote,
                                                   s.request, {},        s.deadline};
    if (s.ready) {
      record->stamp = s.ready->stamp;
      record->event_owner = s.ready->event_owner;
      inner.ready = s.ready->event;
    }
    return Status(agent_.submit(inner), std::move(record), *this);
  }
  [[nodiscard]] Expectation expect(b10::RequestId request, std::span<b10::LocalSpan const> spans,
                                   std::span<std::string const> from, b10::Duration limit) {
    return agent_.expect(request, spans, from, limit);
  }
  [[nodiscard]] auto local_descriptor() const { return agent_.local_descriptor(); }
  void load_remote(std::string const& name, std::span<std::byte const> bytes) {
    agent_.load_remote(name, bytes);
  }
  void invalidate_remote(std::string const& name) { agent_.invalidate_remote(name); }
  [[nodiscard]] b10::Reach reach(std::string const& name) const { return agent_.reach(name); }
  [[nodiscard]] b10::Instant now() const { return agent_.now(); }

  /// What has ended since the last call.
  [[nodiscard]] std::vector<TransferTimes> take() {
    std::lock_guard const lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  void note(Record& record, b10::Outcome const& outcome) {
    if (record.noted.exchange(true)) return;
    auto times = record.times;
    times.ended = b10::steady_now();
    times.ready.ns = record.stamp ? record.stamp->load() : times.submitted.ns;
    times.landed = outcome.ok();
    std::lock_guard const lock(mutex_);
    ended_.push_back(times);
  }

  A& agent_;
  std::mutex mutex_{};
  std::vector<TransferTimes> ended_{};
};

}  // namespace mini
