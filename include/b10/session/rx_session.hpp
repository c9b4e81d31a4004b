#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/session/aux_record.hpp>
#include <b10/session/block_table.hpp>
#include <b10/session/session_services.hpp>
#include <b10/session/states.hpp>
#include <b10/session/transfer_agent.hpp>

namespace b10::session {

/// Blocks of one paged group that a receiver wants: those of the table at or after `start`.
struct RxGroup {
  GroupId group{};
  BlockTable table{};
  BlockOrdinal start{};
};

struct RxOptions {
  RequestId request{};
  ReceiverSliceId slice{};
  std::uint64_t prompt_tokens = 0;
  std::vector<std::string> writers{};  ///< names of the ranks that hold the request
};

/// Where the bytes of a request go: one monolithic task.
struct RxSlice {
  std::vector<RxGroup> groups{};
  std::vector<WantedState> state{};
  std::optional<LocalSpan> aux{};  ///< NodeShape::aux_bytes long; registered, like the pools
};

/// The receiver's side of one request. Made by SessionNode::rx. Any thread. Pages come back only as
/// the agent's Quiescent value, from take_pages().
template <TransferAgent A>
class RxSession {
 public:
  using Quiescent = typename A::Expectation::Quiescent;

  RxSession(SessionServices<A>& services, RxOptions options,
            std::vector<std::shared_ptr<PeerInfo const>> writers)
      : services_(services), options_(std::move(options)) {
    for (auto& peer : writers) writers_.push_back({std::move(peer)});
  }

  /// Grants the spans and asks the writers, once. Throws SessionRetired, Error{cancelled},
  /// Error{invalid_request}.
  void receive(RxSlice slice) {
    std::lock_guard const lock(mutex_);
    if (closed_) throw SessionRetired(options_.request);
    if (cancelled_) throw Error(Reason::cancelled, "the session is cancelled");
    if (asked_) refuse("receive() was called before: a request is one task here");
    auto const spans = granted_spans(slice);
    if (!spans.empty()) {
      expectation_.emplace(services_.agent.expect(options_.request, spans, names_of_writers(),
                                                  services_.times.session));
      expectation_->on_change(services_.wake);
    }
    asked_ = services_.agent.now();
    RequestData m{
        options_.request,       options_.slice, options_.prompt_tokens, services_.times.session, {},
        std::move(slice.state), std::nullopt};
    for (auto const& g : slice.groups)
      m.groups.push_back({g.group, g.start, {g.table.slots().begin(), g.table.slots().end()}});
    if (slice.aux) m.aux = as_remote(*slice.aux);
    aux_ = slice.aux;
    bool first = true;
    for (auto& w : writers_) {
      auto for_this = m;
      if (!std::exchange(first, false)) for_this.aux.reset();  // one writer sends it
      services_.post(*w.peer, std::move(for_this));
    }
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
  [[nodiscard]] std::optional<SessionStatus> wait(Duration limit) {
    if (!wait_until(services_, limit, [&] { return ended(status()); })) return std::nullopt;
    return status();
  }
  /// The AUX payload of a session that is fully transferred.
  [[nodiscard]] std::optional<std::vector<std::byte>> aux() const {
    std::lock_guard const lock(mutex_);
    return aux_payload_;
  }
  /// Ends the session: nothing further is written once it answers drained. in_flight: a copy still
  /// runs; ask again, or take_pages().
  CancelAnswer cancel() {
    std::lock_guard const lock(mutex_);
    end(cancelled_, {Reason::cancelled}, true);
    return revoke({}) ? CancelAnswer::drained : CancelAnswer::in_flight;
  }
  /// Pages, when nothing can write them any more: only after the session has ended, and once.
  /// Nothing if a copy still runs after `limit` (ask again), or if no page was granted.
  [[nodiscard]] std::optional<Quiescent> take_pages(Duration limit) {
    std::lock_guard const lock(mutex_);
    if (!ended(current()) || !revoke(limit)) return std::nullopt;
    return std::exchange(proof_, std::nullopt);
  }
  /// Refused until the session has ended and its pages were taken (one that has not ended is
  /// cancelled).
  CloseAnswer close() {
    std::lock_guard const lock(mutex_);
    if (closed_) return CloseAnswer::closed;
    if (!ended(current())) end(cancelled_, {Reason::cancelled}, true);
    if (expectation_ || proof_) return CloseAnswer::refused;
    closed_ = true;
    return CloseAnswer::closed;
  }
  [[nodiscard]] bool closed() const {
    std::lock_guard const lock(mutex_);
    return closed_;
  }
  [[nodiscard]] RequestId request() const noexcept { return options_.request; }

  // What follows is the node's.

  void result(NodeId from, KvResult const& m) {
    std::lock_guard const lock(mutex_);
    auto* w = writer(from);
    if (!w || m.receiver_slice != options_.slice || ended(current())) return;
    if (m.status == ResultStatus::failed) return end(failed_, {m.reason, m.why}, true, from);
    if (m.status == ResultStatus::cancelled)
      return end(cancelled_, {Reason::cancelled, m.why}, false);
    if (to_integer(m.sender_slice) != w->slices || w->last)
      return end(failed_,
                 {Reason::protocol, "\"" + w->peer->shape.name + "\" reports slice " +
                                        std::to_string(to_integer(m.sender_slice)) + " where " +
                                        std::to_string(w->slices) + " is due"},
                 true);
    ++w->slices;
    w->last = m.is_last;
    w->bytes += m.bytes;
    for (auto const& each : writers_)
      if (!each.last) return;
    std::uint64_t claimed = 0;
    for (auto const& each : writers_) claimed += each.bytes;
    if (claimed != wanted_bytes_)
      end(failed_,
          {Reason::protocol, "the writers report " + std::to_string(claimed) +
                                 " bytes, the blocks asked for have " +
                                 std::to_string(wanted_bytes_)},
          false);
    else
      kv_reported_ = true;
  }
  void result(NodeId from, AuxResult const& m) {
    std::lock_guard const lock(mutex_);
    if (!writer(from) || m.receiver_slice != options_.slice || !aux_ || ended(current())) return;
    if (m.status == ResultStatus::failed || m.status == ResultStatus::cancelled)
      return end(failed_, {m.reason, "AUX: " + m.why}, true, from);
    if (m.bytes != aux_->bytes)
      return end(failed_,
                 {Reason::protocol, "an AUX record of " + std::to_string(m.bytes) +
                                        " bytes, the slot has " + std::to_string(aux_->bytes)},
                 true);
    aux_reported_ = true;
    read_aux();
  }
  void cancelled_by(NodeId from) {
    std::lock_guard const lock(mutex_);
    auto* w = writer(from);
    if (!w) return;
    w->told = true;
    end(cancelled_, {Reason::cancelled}, true);
  }
  void peer_lost(NodeId peer) {
    std::lock_guard const lock(mutex_);
    if (auto const* w = writer(peer))
      end(failed_, {Reason::peer_lost, "\"" + w->peer->shape.name + "\" restarted"}, true, peer);
  }
  void poll() {
    std::lock_guard const lock(mutex_);
    if (closed_ || !asked_) return;
    read_aux();
    if (ended(current())) return;
    // A sender's cancel may come by the transport before it comes by the plane.
    if (auto const failure = expectation_ ? expectation_->failure() : std::nullopt)
      return end(failure->reason == Reason::cancelled ? cancelled_ : failed_,
                 {failure->reason, failure->why}, true);
    if (services_.agent.now() - *asked_ >= services_.times.session)
      end(failed_,
          {Reason::deadline, "not done " + std::to_string(services_.times.session.ns / 1'000'000) +
                                 " ms after receive() (SessionTimes::session)"},
          true);
  }

 private:
  struct Writer {
    std::shared_ptr<PeerInfo const> peer;
    std::uint32_t slices = 0;  ///< results so far
    bool last = false;
    std::uint64_t bytes = 0;
    bool told = false;  ///< of the cancel, or it told us
  };

  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  Writer* writer(NodeId id) {
    for (auto& w : writers_)
      if (w.peer->id == id) return &w;
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string> names_of_writers() const {
    std::vector<std::string> names;
    for (auto const& w : writers_) names.push_back(w.peer->shape.name);
    return names;
  }
  /// Bytes of a slot of `group` that all writers together send.
  [[nodiscard]] std::uint64_t bytes_per_slot(GroupId group) const {
    std::uint64_t bytes = 0;
    for (auto const& w : writers_)
      for (auto const& link : w.peer->links)
        if (link.local == group)
          for (auto const& f : link.received) bytes += f.bytes;
    return bytes;
  }
  void grant_slot(std::vector<LocalSpan>& spans, GroupId group, SlotId slot) {
    auto const& g = services_.shape.groups[to_integer(group)];
    if (to_integer(slot) >= g.pool.slots)
      refuse("slot " + std::to_string(to_integer(slot)) + " of a pool of " +
             std::to_string(g.pool.slots));
    spans.push_back({reinterpret_cast<std::byte*>(g.pool.base + to_integer(slot) * g.pool.stride),
                     slot_bytes(g.geometry, services_.shape.place), g.pool.device});
    wanted_bytes_ += bytes_per_slot(group);
  }
  [[nodiscard]] std::vector<LocalSpan> granted_spans(RxSlice const& slice) {
    std::vector<LocalSpan> spans;
    wanted_bytes_ = 0;
    auto const require = [&](GroupId id, GroupKind kind) {
      auto const& groups = services_.shape.groups;
      if (to_integer(id) >= groups.size() || groups[to_integer(id)].geometry.kind != kind)
        refuse("group " + std::to_string(to_integer(id)) + " of " + std::to_string(groups.size()) +
               " is not there or of another kind");
    };
    for (auto const& g : slice.groups) {
      require(g.group, GroupKind::paged);
      auto const shape = services_.shape.groups[to_integer(g.group)].geometry.blocks();
      auto const blocks = block_count(shape, options_.prompt_tokens);
      if (g.table.size() != blocks)
        refuse("a table of " + std::to_string(g.table.size()) + " blocks, a prompt of " +
               std::to_string(options_.prompt_tokens) + " tokens has " + std::to_string(blocks));
      for (auto i = to_integer(g.start); i < blocks; ++i)
        if (auto const slot = g.table[BlockOrdinal{i}]; slot != absent)
          grant_slot(spans, g.group, slot);
    }
    for (auto const& s : slice.state) {
      require(s.group, GroupKind::state);
      if (s.slot != absent) grant_slot(spans, s.group, s.slot);
    }
    if (slice.aux && slice.aux->bytes != services_.shape.aux_bytes)
      refuse("an AUX slot of " + std::to_string(slice.aux->bytes) + " bytes, records have " +
             std::to_string(services_.shape.aux_bytes));
    if (slice.aux) spans.push_back(*slice.aux);
    return spans;
  }
  /// Landed is decided here, by what this node has copied, whatever the writers say.
  [[nodiscard]] bool landed() const {
    auto const due = wanted_bytes_ + (aux_ && aux_reported_ ? aux_->bytes : 0);
    return due == 0 || landed_ || (expectation_ && expectation_->landed_bytes() >= due);
  }
  [[nodiscard]] SessionStatus current() const {
    StatusFacts f;
    f.failed = failed_;
    f.cancelled = cancelled_;
    f.last_given = kv_reported_;
    f.kv_done = kv_reported_ && landed();
    f.aux_done = !aux_ || aux_payload_.has_value();
    f.peer_known = f.transferring = asked_.has_value();
    for (auto const& w : writers_) f.transferring &= w.slices > 0;
    return derive(f);
  }
  void read_aux() {
    if (!aux_ || !aux_reported_ || aux_payload_ || failed_ || cancelled_) return;
    if (!kv_reported_ || !landed()) return;
    aux_payload_ = decode_aux(options_.request, options_.slice,
                              std::span<std::byte const>(aux_->address, aux_->bytes));
    if (!aux_payload_)
      end(failed_, {Reason::protocol, "the AUX record is not this request's"}, false);
  }
  /// The first end counts. Writers that are still at work are told, each once.
  void end(bool& how, Ending ending, bool tell, std::optional<NodeId> except = {}) {
    if (failed_ || cancelled_ || ended(current())) return;
    how = true;
    ending_ = std::move(ending);
    if (!tell || !asked_) return;
    for (auto& w : writers_)
      if (!w.last && w.peer->id != except && !std::exchange(w.told, true))
        services_.post(*w.peer, CancelSession{options_.request, true});
  }
  /// Whether the proof is here, was given out, or is not needed.
  bool revoke(Duration limit) {
    if (!expectation_) return true;
    landed_ = !failed_ && !cancelled_;  // the session had ended well: it stays so without the count
    proof_ = expectation_->revoke(limit);
    if (proof_) expectation_.reset();
    return proof_.has_value();
  }

  SessionServices<A>& services_;
  RxOptions const options_;
  mutable std::mutex mutex_{};  // guards what follows
  std::vector<Writer> writers_{};
  std::optional<typename A::Expectation> expectation_{};
  std::optional<Quiescent> proof_{};
  std::optional<Instant> asked_{};
  std::optional<LocalSpan> aux_{};
  std::optional<std::vector<std::byte>> aux_payload_{};
  std::uint64_t wanted_bytes_ = 0;
  bool kv_reported_ = false;
  bool aux_reported_ = false;
  bool landed_ = false;
  bool failed_ = false;
  bool cancelled_ = false;
  bool closed_ = false;
  Ending ending_{};
};

}  // namespace b10::session
