#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <b10/completion.hpp>
#include <b10/core/admission.hpp>
#include <b10/core/aftermath.hpp>
#include <b10/core/fence.hpp>
#include <b10/core/flight_recorder.hpp>
#include <b10/core/grant_table.hpp>
#include <b10/core/lane_types.hpp>
#include <b10/core/notes.hpp>
#include <b10/core/plan.hpp>
#include <b10/core/span_list.hpp>
#include <b10/core/tag_registry.hpp>
#include <b10/core/views.hpp>
#include <b10/core/wire.hpp>
#include <b10/digest.hpp>
#include <b10/metrics.hpp>

namespace b10::core {

/// What the pipelines ask of their lane: admission, endpoints, tags, views, grants, replies, the
/// common end of their funnels, and the outcome. Owns the lane's state.
template <class LaneTypes>
class LaneServices : public Aftermath<LaneServices<LaneTypes>, LaneTypes> {
  friend class Aftermath<LaneServices, LaneTypes>;

 public:
  using Types = LaneTypes;
  using S = typename Types::Staging;
  using T = typename Types::Transport;
  using Staging = S;
  using Completion = typename Types::Completion;
  using Config = typename Types::Config;
  using View = typename Types::View;
  using SourceReady = typename Types::SourceReady;
  using Endpoint = typename Types::Endpoint;
  using Flight = typename Types::Flight;
  using Slot = typename Types::Slot;
  using Send = typename Types::Send;
  using Receive = typename Types::Receive;
  static constexpr bool views_reachable = SharesViews<S>;  ///< a peer may write them itself
  static constexpr bool wire_reaches = [] {                ///< the transport may
    if constexpr (SharesViews<S>) return bool{S::wire_reaches};
    return true;
  }();

  static constexpr bool digests = wants_digests<Completion>;
  static constexpr DigestKind digest_kind = digests ? DigestKind::mixed_words : DigestKind::none;

  LaneServices(Config const& config, Hello const& hello, std::shared_ptr<GrantTable> grants)
      : config_(config),
        hello_(hello),
        grants_(std::move(grants)),
        staging_(config.staging),
        transport_(config.transport, with_offer(hello_, staging_)),
        views_(staging_),
        admission_(config.admission_bytes ? config.admission_bytes : 2 * staging_.gauges().total,
                   config.small_bytes),
        quarantine_bytes_max_(config.quarantine_bytes_max ? config.quarantine_bytes_max
                                                          : staging_.gauges().total / 2),
        links_(metrics_),
        recorder_(config.recorder_events),
        now_(transport_.now()) {}
  LaneServices(LaneServices const&) = delete;
  LaneServices& operator=(LaneServices const&) = delete;

  [[nodiscard]] Instant now() const noexcept { return now_; }

  /// Memory of finished plans; for any thread.
  [[nodiscard]] ReadyList& ready_list() noexcept { return ready_; }
  [[nodiscard]] DeadlineQueue& deadlines() noexcept { return deadlines_; }
  [[nodiscard]] auto& copies() noexcept { return staging_.copies(); }
  /// Of a chunk whose copy here has ended; 0 without digests.
  [[nodiscard]] std::uint64_t digest(Slot const& s) noexcept {
    if constexpr (digests) return staging_.copies().digest(s.event);
    return 0;
  }
  [[nodiscard]] Tag tag(MessageIdentity const& m) const noexcept { return tags_.tag(m); }
  [[nodiscard]] unsigned depth() const noexcept {
    return std::max(1u, std::min(S::Slicing::depth, config_.max_in_flight_ops));
  }
  /// The smaller of both nodes' slices.
  [[nodiscard]] std::uint64_t slice_bytes(Endpoint const& e) const noexcept {
    std::uint64_t const theirs = e.info.remote.slice_bytes;
    return theirs == 0 ? staging_.slice_bytes() : std::min(theirs, staging_.slice_bytes());
  }
  void record(Stage stage, TransferId transfer, std::uint32_t chunk = 0) noexcept {
    if (recorder_.enabled())
      recorder_.record({transport_.now(), transfer, ChunkIndex{chunk}, stage});
  }
  void stamp(Send& t, Duration& stage) noexcept {
    stage = stage + (now_ - t.stage_start);
    t.stage_start = now_;
  }
  [[nodiscard]] bool admit(Send& t) {
    check_quarantine_budget();
    t.admitted = admission_.admit(t.fence, t.plan.bytes);
    return t.admitted;
  }
  void check_quarantine_budget() const {
    auto const g = staging_.gauges();
    if (g.quarantined + g.abandoned > quarantine_bytes_max_)
      throw Error(Reason::quarantine_full,
                  std::to_string(g.quarantined + g.abandoned) + " of " + std::to_string(g.total) +
                      " staging bytes quarantined, limit " + std::to_string(quarantine_bytes_max_) +
                      " (Config::quarantine_bytes_max)");
    auto const penned = metrics_.generations_penned.get();
    if (penned > config_.generations_penned_max)
      throw Error(Reason::quarantine_full, std::to_string(penned) +
                                               " generations quarantined, limit " +
                                               std::to_string(config_.generations_penned_max) +
                                               " (Config::generations_penned_max)");
  }
  [[nodiscard]] bool quarantine_is_full() const noexcept {
    return metrics_.staging_quarantined.get() + metrics_.staging_abandoned.get() >
               quarantine_bytes_max_ ||
           metrics_.generations_penned.get() > config_.generations_penned_max;
  }
  /// A lease on the peer's live endpoint; connects if there is none. False: wait. Throws when it
  /// cannot be had.
  [[nodiscard]] bool lease(Send& t) {
    auto& p = *links_.peer(t.peer);
    if (p.current) {
      t.endpoint = p.current;
      ++t.endpoint->users;
      return true;
    }
    if (p.connects_failed != t.connects_failed_before)
      throw Error(Reason::peer_lost, "no connection to \"" + p.name + "\": " + p.connect_error);
    if (p.address.empty())
      throw Error(Reason::peer_lost,
                  "\"" + p.name + "\" is gone and does not listen: it must connect again");
    if (p.connecting == ConnectId{}) {
      p.connecting = ConnectId{++connects_};
      transport_.connect(p.connecting, p.address, now_ + config_.connect_limit);
    }
    if (std::find(p.waiting.begin(), p.waiting.end(), &t.fence) == p.waiting.end())
      p.waiting.push_back(&t.fence);
    return false;
  }
  /// Gives the transfer its name, which it keeps over attempts, so that the receiver knows it
  /// again. Another incarnation of the peer makes another pair, where that name may be the other
  /// side's.
  void name_transfer(Send& t) noexcept {
    if constexpr (!Types::guards_identities) {
      t.id = TransferId{to_integer(t.request)};  // as v1 does
    } else {
      auto const& incarnation = t.endpoint->info.remote.incarnation;
      if (t.id == TransferId{} || t.named_for != incarnation)
        t.id = next_transfer_id(t.endpoint->peer);
      t.named_for = incarnation;
    }
  }
  [[nodiscard]] TransferId next_transfer_id(PeerId peer) noexcept {
    auto& p = *links_.peer(peer);
    auto const& mine = hello_.incarnation;
    bool const lower = mine.high != p.incarnation.high ? mine.high < p.incarnation.high
                                                       : mine.low < p.incarnation.low;
    return TransferId{++p.transfers_sent << 1 | (lower ? 0u : 1u)};
  }
  /// Reserves READY's, RESULT's and every chunk's tag: all or none. Throws Error{tag_collision}.
  void reserve_tags(Endpoint const& e, TransferId id, std::size_t chunks, std::vector<Tag>& out) {
    std::vector<Tag> all;
    all.reserve(chunks + 2);
    all.push_back(tag(e.identity(id, MessageKind::ready)));
    all.push_back(tag(e.identity(id, MessageKind::result)));
    for (std::uint32_t i = 0; i < chunks; ++i)
      all.push_back(tag(e.identity(id, MessageKind::data, ChunkIndex{i})));
    if (Types::guards_identities && !registry_.reserve(all))
      throw Error(Reason::tag_collision, "a tag of transfer " + std::to_string(to_integer(id)) +
                                             " is in use or quarantined; nothing was posted");
    out = std::move(all);
  }
  void release_tags(std::vector<Tag>& tags) noexcept {
    registry_.release(tags);
    tags.clear();
  }
  [[nodiscard]] bool take_view(std::optional<View>& view, Fence& fence, Use use) {
    return views_.take(view, fence, use);
  }
  [[nodiscard]] bool try_view(std::optional<View>& view, Use use) {
    return views_.attempt_unqueued(view, use);
  }
  void give_back(std::optional<View>& view) noexcept { views_.give_back(view); }
  /// Where in the peer's staging a chunk of a placed transfer goes. Throws Error{protocol} for a
  /// place outside of what the peer has offered.
  [[nodiscard]] std::byte* place_at(Endpoint& e, std::uint64_t place, std::uint64_t bytes) {
    std::byte* to = nullptr;
    if constexpr (SharesViews<S>) to = e.reach.reach->at(place, bytes);
    if (!to)
      throw Error(Reason::protocol, "the receiver gave place " + std::to_string(place) + " for " +
                                        std::to_string(bytes) +
                                        " bytes, which is not in the staging it has offered");
    return to;
  }
  /// Tells the sender of a placed transfer where the chunks from `first` on go. False: not posted.
  [[nodiscard]] bool give_places(Receive& t, std::uint32_t first,
                                 std::span<std::uint64_t const> list) noexcept {
    wire::Places m{};
    m.header = t.control.header;
    m.first = first;
    m.list = list;
    std::array<std::byte, wire::frame_bytes_max> frame;
    Endpoint& e = *t.endpoint;
    return e.link && e.state != Endpoint::State::down && e.link->control(wire::encode(m, frame));
  }
  [[nodiscard]] std::uint64_t place_of(View const& view) const noexcept {
    if constexpr (SharesViews<S>) return staging_.place(view);
    return 0;
  }

  /// Whether spans can be permitted as they come: one grant holds for all of them. Without one they
  /// are checked together.
  [[nodiscard]] bool permits_in_parts(Receive const& t) const {
    return grants_->map().granted(t.control.request);
  }
  /// Throws unless these spans of the transfer may be written, all under the same grant.
  void permit(Receive& t, std::span<RemoteSpan const> spans) {
    auto verdict = grants_->map().check(t.endpoint->peer, t.control.request, spans, now_);
    if (auto const* no = std::get_if<Error>(&verdict)) throw *no;
    auto& permission = std::get<MemoryMap::Permission>(verdict);
    if (permission.expires < t.fence.deadline()) t.fence.set_deadline(permission.expires);
    if (!t.grant) {
      t.grant = grants_->record(t.control.request, permission.grant);
      auto const& peer = t.endpoint->info.remote.name;
      if (!t.grant->admits_peer(peer))
        throw Error(Reason::refused, "request " + std::to_string(to_integer(t.control.request)) +
                                         " is not wanted from peer \"" + peer + "\"");
    }
    if (t.grant->state != permission.grant)
      throw Error(Reason::cancelled, "the grant of request " +
                                         std::to_string(to_integer(t.control.request)) +
                                         " is not the one that the transfer began under");
  }
  void end_copy(GrantRecord& grant) {
    grant.state->end_copy();
    if (!grant.state->revoked()) return;
    grant.notify();
    if (grant.state->quiescent() && grant.forget) grant.forget_once();
  }
  /// False: the peer has no live link, or it took no more.
  [[nodiscard]] bool send_note(PeerId peer, std::span<std::byte const> bytes) {
    auto* const p = links_.peer(peer);
    if (!p || !p->current) return false;
    Endpoint& e = *p->current;
    wire::Note const note{{{}, e.info.generation, {}, {}}, ++e.notes_sent, bytes};
    std::array<std::byte, wire::frame_bytes_max> frame;
    return e.link->control(wire::encode(note, frame));
  }
  void hear_note(Endpoint& e, std::span<std::byte const> frame) {
    auto const note = wire::decode_note(frame);
    if (!note) return metrics_.malformed_ignored.add();
    if (note->sequence <= e.notes_heard) return metrics_.duplicates_ignored.add();
    e.notes_heard = note->sequence;
    if (!notes_.put({e.info.remote.name, e.peer, {note->bytes.begin(), note->bytes.end()}},
                    config_.notes_max))
      metrics_.notes_dropped.add();
  }
  [[nodiscard]] NoteBox& notes() noexcept { return notes_; }
  /// Sends READY or RESULT. False if it cannot be posted.
  template <class Message>
  bool reply(Endpoint& e, Message const& m) {
    if (!e.link || e.state == Endpoint::State::down) return false;
    auto r = std::make_unique<Reply>();
    auto const frame = wire::encode(m, r->buffer);
    e.link->send(tag(e.identity(m.header.transfer, m.header.kind)), frame.data(), frame.size(),
                 r->operation);
    bool const posted = !r->operation.done() || r->operation.status() == OperationStatus::ok;
    if (r->operation.pending()) e.replies.push_back(std::move(r));
    return posted;
  }
  /// A first attempt on a generation that turned out to be over: its remains go with that
  /// generation.
  void end_attempt(Send& t) {
    metrics_.attempts_retried.add();
    this->sweep(t);
    t.flight.reset();
    leave_endpoint(t.endpoint);
    if (auto* p = links_.peer(t.peer)) t.connects_failed_before = p->connects_failed;
  }
  [[nodiscard]] Outcome outcome_of(std::exception_ptr cause) const noexcept {
    Outcome o;
    try {
      std::rethrow_exception(cause);
    } catch (Error const& e) {
      o.reason = e.reason();
      o.why = e.what();
      if (o.reason == Reason::cancelled) o.status = Status::cancelled;
    } catch (std::exception const& e) {
      o.reason = Reason::transport_failed;
      o.why = e.what();
    }
    return o;
  }
  void finish(Send& t, Outcome outcome) {
    count(metrics_.sent, outcome);
    admission_.leave(t.fence, t.admitted ? t.plan.bytes : 0);
    views_.leave(t.fence);
    if (auto* p = links_.peer(t.peer)) std::erase(p->waiting, &t.fence);
    leave_endpoint(t.endpoint);
    t.state->finish(std::move(outcome), t.stages);
    finished_sends_.push_back(&t);
    t.packer.reset();
  }
  void finish(Receive& t, Outcome outcome) {
    if (!t.superseded) count(metrics_.received, outcome);
    views_.leave(t.fence);
    auto& receiving = links_.peer(t.endpoint->peer)->receiving;
    if (auto it = receiving.find(t.id()); it != receiving.end() && it->second == &t)
      receiving.erase(it);
    leave_endpoint(t.endpoint);
    if (t.grant && !t.superseded) t.grant->push(outcome);
    finished_receives_.push_back(&t);
    t.spans.clear();
  }

 protected:
  static Hello const& with_offer(Hello& hello, S const& staging) {
    if constexpr (SharesViews<S>) hello.staging = staging.offer();
    return hello;
  }
  void leave_endpoint(Endpoint*& e) noexcept {
    if (!e) return;
    if (--e->users == 0 && e->state != Endpoint::State::live) closing_endpoints_ = true;
    e = nullptr;
  }

  static void count(Metrics::Side& side, Outcome const& o) noexcept {
    if (o.ok()) {
      side.landed.add();
      side.bytes_landed.add(o.bytes);
    } else {
      side.ended[static_cast<std::size_t>(o.reason)].add();
    }
  }

  Config config_;
  Hello hello_;
  std::shared_ptr<GrantTable> grants_;
  Metrics metrics_;
  S staging_;
  T transport_;
  [[no_unique_address]] typename Types::Tags tags_{};
  Views<S> views_;
  Admission admission_;
  std::uint64_t quarantine_bytes_max_;
  TagRegistry registry_;
  typename Types::Links links_;
  FlightRecorder recorder_;
  NoteBox notes_;
  ReadyList ready_;
  DeadlineQueue deadlines_;
  std::vector<Send*> finished_sends_;
  std::vector<Receive*> finished_receives_;
  std::uint64_t connects_ = 0;
  Instant now_{};
  bool closing_endpoints_ = false;
};

}  // namespace b10::core
