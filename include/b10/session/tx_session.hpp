#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/session/session_services.hpp>
#include <b10/session/states.hpp>
#include <b10/session/tx_leg.hpp>

namespace b10::session {

struct TxOptions {
  RequestId request{};
  std::uint64_t prompt_tokens = 0;
  unsigned receivers = 1;  ///< ranks that will ask for this request
  bool aux = false;        ///< send_aux() will be called
};

/// The sender's side of one request. Made by SessionNode::tx. Any thread; one lock, never held
/// while waiting. Slices that come before a receiver has asked are kept and replayed to it in
/// order.
template <TransferAgent A>
class TxSession {
 public:
  using Slice = KvSlice<typename A::SourceReady>;

  TxSession(SessionServices<A>& services, TxOptions options)
      : services_(services), options_(options) {
    for (auto const& g : services_.shape.groups)
      next_.push_back(g.geometry.kind == GroupKind::paged
                          ? live_blocks(g.geometry.blocks(), options_.prompt_tokens)
                          : OrdinalRange{});
  }

  /// Gives the next chunk. The event is the agent's to wait for: this call never waits. Throws
  /// SessionRetired after close, Error{cancelled} or Error{refused} after the session has ended,
  /// Error{invalid_request} for a slice that is out of order or out of range; nothing is sent then.
  /// The last chunk once more is no error and does nothing.
  void send(Slice slice) {
    std::lock_guard const lock(mutex_);
    if (closed_) throw SessionRetired(options_.request);
    if (last_at_ && to_integer(slice.id) + 1 == items_.size() && slice.is_last) return;
    require_running();
    check(slice);
    for (auto const& part : slice.groups)
      if (!part.blocks.empty()) next_[to_integer(part.group)].first = part.blocks.end;
    if (slice.is_last) last_at_ = services_.agent.now();
    items_.push_back(std::move(slice));
    pump();
  }
  /// Gives the AUX payload, once; it goes after the last chunk.
  void send_aux(std::span<std::byte const> payload) {
    std::lock_guard const lock(mutex_);
    if (closed_) throw SessionRetired(options_.request);
    require_running();
    if (!options_.aux || aux_)
      refuse("an AUX payload that TxOptions::aux does not announce, or twice");
    (void)encode_aux(options_.request, {}, payload, services_.shape.aux_bytes);  // checks its size
    aux_.emplace(payload.begin(), payload.end());
    pump();
  }

  [[nodiscard]] SessionStatus status() const {
    std::lock_guard const lock(mutex_);
    return current();
  }
  /// Why it failed; empty and none otherwise.
  [[nodiscard]] std::string why() const {
    std::lock_guard const lock(mutex_);
    return ending_.why;
  }
  [[nodiscard]] Reason reason() const {
    std::lock_guard const lock(mutex_);
    return ending_.reason;
  }
  /// The status once the session has ended, or nothing within the limit; changes nothing.
  [[nodiscard]] std::optional<SessionStatus> wait(Duration limit) {
    if (!wait_until(services_, limit, [&] { return ended(status()); })) return std::nullopt;
    return status();
  }
  /// Ends the session. in_flight: something may still read pages; keep them and ask again.
  CancelAnswer cancel() {
    std::lock_guard const lock(mutex_);
    poll_legs();  // what has landed before counts
    end(cancelled_, TxLeg<A>::Tell::cancelled, {Reason::cancelled});
    return drained_now() ? CancelAnswer::drained : CancelAnswer::in_flight;
  }
  /// Any transfer, of KV or AUX, to any receiver, that may still read this node's memory.
  [[nodiscard]] bool has_transferring_tasks() const {
    std::lock_guard const lock(mutex_);
    return !drained_now();
  }
  [[nodiscard]] Activity activity() const {
    std::lock_guard const lock(mutex_);
    bool const over = ended(current());
    if (!drained_now()) return over ? Activity::draining : Activity::active;
    return over || items_.empty() ? Activity::idle : Activity::active;  // may yet be replayed
  }
  /// All chunks were given and gathered for all receivers: pages may be recycled before the end.
  [[nodiscard]] bool sources_released() const {
    std::lock_guard const lock(mutex_);
    if (ended(current()) && drained_now()) return true;
    if (!last_at_ || legs_.size() < options_.receivers) return false;
    for (auto const& leg : legs_)
      if (leg->started() < items_.size() || !leg->sources_released()) return false;
    return true;
  }
  /// Ends the session for good; refused while anything is under way (a session that has not ended
  /// is cancelled, call again). After closed the id is retired.
  CloseAnswer close() {
    std::lock_guard const lock(mutex_);
    if (closed_) return CloseAnswer::closed;
    poll_legs();
    end(cancelled_, TxLeg<A>::Tell::cancelled, {Reason::cancelled});
    if (!drained_now()) return CloseAnswer::refused;
    closed_ = true;
    return CloseAnswer::closed;
  }
  [[nodiscard]] bool closed() const {
    std::lock_guard const lock(mutex_);
    return closed_;
  }
  [[nodiscard]] RequestId request() const noexcept { return options_.request; }

  // What follows is the node's.

  /// A receiver asks. What cannot be served fails that receiver alone.
  void admit(std::shared_ptr<PeerInfo const> const& peer, RequestData const& wanted) {
    std::lock_guard const lock(mutex_);
    for (auto const& leg : legs_)
      if (leg->peer().id == peer->id && leg->slice() == wanted.slice) return;  // asked twice
    if (cancelled_) {
      services_.post(*peer, CancelSession{options_.request, false});
      return;
    }
    try {
      if (closed_ || ended(current()))
        throw Error(Reason::refused,
                    "the sender's session has ended" +
                        (ending_.why.empty() ? std::string() : ": " + ending_.why));
      if (legs_.size() == options_.receivers)
        refuse("more receivers than TxOptions::receivers, " + std::to_string(options_.receivers));
      legs_.push_back(std::make_unique<TxLeg<A>>(services_, peer, wanted, options_.prompt_tokens));
    } catch (std::exception const& e) {
      auto const why = ending_of(e);
      services_.post(*peer, KvResult{options_.request,
                                     services_.shape.place.tp_rank,
                                     {},
                                     wanted.slice,
                                     true,
                                     ResultStatus::failed,
                                     0,
                                     why.why,
                                     why.reason});
      return;
    }
    pump();
  }
  void cancelled_by(NodeId peer) {
    std::lock_guard const lock(mutex_);
    poll_legs();
    if (ended(current())) return;
    for (auto const& leg : legs_)
      if (leg->peer().id == peer) leg->stop(TxLeg<A>::Tell::nothing, {});
    end(cancelled_, TxLeg<A>::Tell::cancelled, {Reason::cancelled});
  }
  void peer_lost(NodeId peer) {
    std::lock_guard const lock(mutex_);
    poll_legs();
    for (auto const& leg : legs_)
      if (leg->peer().id == peer)
        return end(failed_, TxLeg<A>::Tell::failed,
                   {Reason::peer_lost, "\"" + leg->peer().shape.name + "\" restarted"});
  }
  void poll() {
    std::lock_guard const lock(mutex_);
    if (closed_) return;
    poll_legs();
    pump();
    if (last_at_ && !ended(current()) &&
        services_.agent.now() - *last_at_ >= services_.times.session)
      end(failed_, TxLeg<A>::Tell::failed,
          {Reason::deadline, "not done " + std::to_string(services_.times.session.ns / 1'000'000) +
                                 " ms after the last chunk (SessionTimes::session)"});
  }

 private:
  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  void require_running() const {
    if (cancelled_) throw Error(Reason::cancelled, "the session is cancelled");
    if (failed_) throw Error(Reason::refused, "the session has failed: " + ending_.why);
  }
  void check(Slice const& slice) const {
    auto const id = "slice " + std::to_string(to_integer(slice.id));
    if (last_at_) refuse(id + " comes after the last one");
    if (to_integer(slice.id) != items_.size())
      refuse(id + " comes where slice " + std::to_string(items_.size()) + " is due");
    if (!slice.is_last && !slice.state.empty()) refuse(id + " has state and is not the last one");
    for (auto const& part : slice.groups) {
      auto const g = to_integer(part.group);
      if (g >= next_.size() || services_.shape.groups[g].geometry.kind != GroupKind::paged)
        refuse(id + " names group " + std::to_string(g) + ", which is no paged one of " +
               std::to_string(next_.size()));
      if (part.blocks.empty()) continue;
      if (part.blocks.first < next_[g].first || part.blocks.end > next_[g].end)
        refuse(id + " has blocks [" + std::to_string(to_integer(part.blocks.first)) + ", " +
               std::to_string(to_integer(part.blocks.end)) + ") of group " + std::to_string(g) +
               "; [" + std::to_string(to_integer(next_[g].first)) + ", " +
               std::to_string(to_integer(next_[g].end)) + ") are still to be sent");
    }
  }
  [[nodiscard]] SessionStatus current() const {
    StatusFacts f;
    f.failed = failed_;
    f.cancelled = cancelled_;
    f.last_given = last_at_.has_value();
    f.kv_done = legs_.size() == options_.receivers;
    f.aux_done = true;
    for (auto const& leg : legs_) {
      f.task_failed |= leg->failure().has_value();
      f.kv_done &= leg->started() == items_.size() && leg->kv_done();
      f.aux_done &= !options_.aux || leg->aux_done();
      f.transferring |= !leg->is_drained();
      f.peer_known = true;
    }
    return derive(f);
  }
  [[nodiscard]] bool drained_now() const {
    for (auto const& leg : legs_)
      if (!leg->is_drained()) return false;
    return true;
  }
  /// The first end counts; siblings drain.
  void end(bool& how, typename TxLeg<A>::Tell tell, Ending ending) {
    if (failed_ || cancelled_ || ended(current_without_failures())) return;
    how = true;
    ending_ = std::move(ending);
    for (auto const& leg : legs_) leg->stop(tell, ending_);
  }
  /// A task that failed is what end() is called for; it must not count as ended already.
  [[nodiscard]] SessionStatus current_without_failures() const {
    for (auto const& leg : legs_)
      if (leg->failure()) return SessionStatus::transferring;
    return current();
  }
  void poll_legs() {
    for (auto const& leg : legs_) leg->poll();
    fail_if_a_task_did();
  }
  void fail_if_a_task_did() {
    for (auto const& leg : legs_)
      if (leg->withdrawn()) {
        leg->stop(TxLeg<A>::Tell::failed,
                  {Reason::cancelled, "the receiver has ended the transfer"});
        end(cancelled_, TxLeg<A>::Tell::cancelled, {Reason::cancelled});
      }
    for (auto const& leg : legs_)
      if (leg->failure()) return end(failed_, TxLeg<A>::Tell::failed, *leg->failure());
  }
  /// Hands every reachable receiver what it has not got yet, in order.
  void pump() {
    for (auto const& leg : legs_) {
      if (failed_ || cancelled_) return;
      if (leg->started() == items_.size() && (!aux_ || !last_at_ || leg->aux_started())) continue;
      if (!reachable(*leg)) continue;
      while (leg->started() < items_.size() && !leg->failure()) leg->start(items_[leg->started()]);
      if (last_at_ && aux_ && !leg->failure() && !leg->aux_started()) leg->start_aux(*aux_);
    }
    poll_legs();
  }
  [[nodiscard]] bool reachable(TxLeg<A>& leg) {
    auto const& name = leg.peer().shape.name;
    auto const limit = services_.times.operation;
    try {
      switch (services_.agent.reach(name)) {
        case Reach::connected:
          return true;
        case Reach::unknown:
        case Reach::failed:
          services_.agent.load_remote(name, leg.peer().agent_descriptor);
          if (services_.agent.reach(name) == Reach::connected) return true;
          break;
        case Reach::connecting:
          break;
      }
      if (services_.agent.now() - leg.since() < limit) return false;
      end(failed_, TxLeg<A>::Tell::failed,
          {Reason::peer_lost, "\"" + name + "\" was not reached within " +
                                  std::to_string(limit.ns / 1'000'000) +
                                  " ms (SessionTimes::operation)"});
    } catch (std::exception const& e) {
      end(failed_, TxLeg<A>::Tell::failed, ending_of(e));
    }
    return false;
  }

  SessionServices<A>& services_;
  TxOptions const options_;
  mutable std::mutex mutex_{};        // guards what follows
  std::vector<OrdinalRange> next_{};  // by group: blocks that no slice has had yet
  std::vector<Slice> items_{};
  std::optional<std::vector<std::byte>> aux_{};
  std::optional<Instant> last_at_{};
  std::vector<std::unique_ptr<TxLeg<A>>> legs_{};
  bool failed_ = false;
  bool cancelled_ = false;
  bool closed_ = false;
  Ending ending_{};
};

}  // namespace b10::session
