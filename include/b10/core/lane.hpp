#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/completion.hpp>
#include <b10/config.hpp>
#include <b10/core/admission.hpp>
#include <b10/core/answer.hpp>
#include <b10/core/connect_state.hpp>
#include <b10/core/door.hpp>
#include <b10/core/fence.hpp>
#include <b10/core/flight_recorder.hpp>
#include <b10/core/grant_table.hpp>
#include <b10/core/lane_services.hpp>
#include <b10/core/links.hpp>
#include <b10/core/pen.hpp>
#include <b10/core/receive_pipeline.hpp>
#include <b10/core/running.hpp>
#include <b10/core/send_pipeline.hpp>
#include <b10/core/tag_registry.hpp>
#include <b10/core/views.hpp>
#include <b10/metrics.hpp>
#include <b10/quarantine.hpp>

namespace b10::core {

/// A whole single-threaded transceiver: staging, tags, peers, running transfers and the loop that
/// turns them. It is the transport's handler and the pipelines' services; it takes no lock except
/// to fetch posted commands and to give back the memory of long plans.
template <b10::Staging S, TagScheme G, b10::Completion C, Quarantine Q, b10::Transport T>
class Lane : public LaneServices<LaneTypes<S, G, C, Q, T>> {
  using Base = LaneServices<LaneTypes<S, G, C, Q, T>>;
  using Base::closing_endpoints_, Base::config_, Base::connects_, Base::deadlines_;
  using Base::finished_receives_, Base::finished_sends_, Base::links_, Base::metrics_, Base::now_;
  using Base::quarantine_bytes_max_, Base::ready_, Base::recorder_, Base::registry_, Base::staging_,
      Base::transport_, Base::views_;

 public:
  using Config = typename Base::Config;
  using Endpoint = typename Base::Endpoint;
  using Send = typename Base::Send;
  using Receive = typename Base::Receive;
  using Door = core::Door<Lane>;

  Lane(Config const& config, Hello const& hello, std::shared_ptr<GrantTable> grants)
      : Base(config, hello, std::move(grants)) {
    publish_gauges();
  }
  ~Lane() { close(); }

  // --- The loop ----------------------------------------------------------------------------------

  /// One turn: commands, transport, woken pipelines, deadlines, housekeeping. Returns how much
  /// happened.
  unsigned turn(Door& door) {
    now_ = transport_.now();  // the one clock reading of a turn: deadlines and stage times use it
    unsigned work = door.drain(*this);
    work += transport_.progress(*this);
    work += run_ready();
    if (deadlines_.expire(now_) > 0) work += 1 + run_ready();
    reap();
    if (now_ >= housekeeping_at_ || closing_endpoints_) housekeeping();
    if (work > 0) publish_gauges();
    return work;
  }
  /// Until when the thread may sleep if nothing happens.
  [[nodiscard]] Instant sleep_until() const noexcept {
    return std::min(deadlines_.nearest(), housekeeping_at_);
  }
  [[nodiscard]] T& transport() noexcept { return transport_; }
  [[nodiscard]] T const& transport() const noexcept { return transport_; }
  [[nodiscard]] Metrics const& metrics() const noexcept { return metrics_; }
  [[nodiscard]] std::size_t running() const noexcept { return sends_.size() + receives_.size(); }
  [[nodiscard]] FlightRecorder const& recorder() const noexcept { return recorder_; }
  [[nodiscard]] std::uint64_t quarantine_bytes_max() const noexcept {
    return quarantine_bytes_max_;
  }

  // --- Commands from the face --------------------------------------------------------------------

  void start_send(std::unique_ptr<Send> send) {
    Send& t = *send;
    if (auto* p = links_.peer(t.peer)) t.connects_failed_before = p->connects_failed;
    t.stage_start = now_;
    metrics_.sent.started.add();
    sends_.add(std::move(send));
    t.task = SendPipeline<Base>::run(*this, t);
    t.task.start();
  }
  void cancel_send(TransferState* state) {
    for (auto& t : sends_)
      if (t->state.get() == state) t->fence.stop(Reason::cancelled, "cancelled by the caller");
  }
  void grant_revoked(RequestId request) {
    for (auto& r : receives_)
      if (r->control.request == request && (!r->grant || r->grant->state->revoked()))
        r->fence.stop(Reason::cancelled, "the grant was revoked");
  }
  void connect(std::string const& address, Instant deadline, std::shared_ptr<ConnectState> state) {
    ConnectId const id{++connects_};
    connecting_.emplace(id, std::move(state));
    transport_.connect(id, address, deadline);
  }
  /// Answers with the peer of that name as soon as it is connected.
  void await_peer(std::string_view name, std::shared_ptr<Answer<PeerId>> answer) {
    auto* p = links_.by_name(name);
    if (p && p->current) return answer->give(p->id);
    // Waiters that have given up are let go here: only the lane still holds their answer.
    std::erase_if(awaited_, [](auto const& w) { return w.second.use_count() == 1; });
    awaited_.emplace_back(name, std::move(answer));
  }
  /// Ends every transfer; each goes through its funnel at the next turn.
  void stop_all() {
    for (auto& t : sends_) t->fence.stop(Reason::shutting_down, "the transceiver shuts down");
    for (auto& t : receives_) t->fence.stop(Reason::shutting_down, "the transceiver shuts down");
  }
  void say_bye() {
    for (auto& [id, e] : links_.endpoints())
      if (e->link && e->state != Endpoint::State::down) e->link->bye();
  }
  [[nodiscard]] bool any_link_up() noexcept {
    return std::any_of(links_.endpoints().begin(), links_.endpoints().end(),
                       [](auto const& e) { return e.second->state != Endpoint::State::down; });
  }
  [[nodiscard]] auto& links() noexcept { return links_; }
  /// How payloads get into each peer's staging; empty for staging that nobody else can write.
  [[nodiscard]] std::string explain_reach() {
    std::string text;
    if constexpr (Base::views_reachable)
      for (auto& [id, e] : links_.endpoints())
        text += "\n  payloads for " + e->info.remote.name + ": " +
                (e->reach ? "written into its staging from here"
                          : "by the transport, because " + e->reach.why);
    return text;
  }

  // --- Transport handler -------------------------------------------------------------------------

  Generation last_generation(Hello const&, PairDomain domain) noexcept {
    return links_.last_generation(domain);
  }
  std::string refuse(Hello const& remote, std::string_view) { return links_.refuse(remote); }
  void on_link(typename T::Link&& link, LinkInfo const& info, ConnectId connect) {
    Endpoint* e = links_.open(std::move(link), info, now_, [&](Endpoint& old) {
      fail_endpoint(old, LinkDown::lost, "the peer came back as another incarnation");
    });
    if (!e) metrics_.links_refused.add();
    if (e) e->reach.open(staging_, e->info.remote.staging);
    if (e)
      std::erase_if(awaited_, [&](auto const& w) {
        if (w.first != info.remote.name) return false;
        w.second->give(e->peer);
        return true;
      });
    end_connect(connect, e ? e->peer : PeerId{},
                e ? "" : "the agreed generation may have been used before");
  }
  void on_connect_failed(ConnectId connect, std::string_view why) {
    metrics_.links_refused.add();
    end_connect(connect, PeerId{}, std::string(why));
  }
  void on_link_down(LinkId id, LinkDown how, std::string_view why) {
    if (Endpoint* e = links_.endpoint(id)) {
      metrics_.links_down.add();
      fail_endpoint(*e, how,
                    std::string(how == LinkDown::bye      ? "the peer said goodbye"
                                : how == LinkDown::silent ? "the peer fell silent"
                                                          : "the peer was lost") +
                        (why.empty() ? "" : ": ") + std::string(why));
    }
  }
  void on_control(LinkId id, std::span<std::byte const> frame) {
    Endpoint* e = links_.endpoint(id);
    auto const h = wire::decode_header(frame);
    if (!e || !h || h->generation != e->info.generation) return metrics_.malformed_ignored.add();
    switch (h->kind) {
      case MessageKind::control:
        return on_new_transfer(*e, frame);
      case MessageKind::descriptors:
        return on_descriptors(*e, frame);
      case MessageKind::abort:
        return on_abort(*e, frame);
      case MessageKind::places:
        return on_places(*e, frame);
      case MessageKind::note:
        return this->hear_note(*e, frame);
      default:
        return metrics_.malformed_ignored.add();
    }
  }

 private:
  void on_new_transfer(Endpoint& e, std::span<std::byte const> frame) {
    auto const c = wire::decode_control(frame);
    if (!c) return metrics_.malformed_ignored.add();
    auto& p = *links_.peer(e.peer);
    TransferId const id = c->header.transfer;
    if (e.state >= Endpoint::State::draining)
      return refuse(e, c->header, Reason::refused, "this generation is being retired", true);
    if (auto it = p.receiving.find(id); it != p.receiving.end()) {
      Receive& old = *it->second;
      if (old.endpoint->info.generation == e.info.generation)
        return metrics_.duplicates_ignored.add();
      if (old.endpoint->info.generation > e.info.generation) return metrics_.stale_ignored.add();
      old.superseded = true;
      old.fence.stop(Reason::superseded, "a newer attempt took over");
      p.receiving.erase(it);
    } else if (Base::Types::guards_identities && !p.seen.insert(id)) {
      metrics_.stale_ignored.add();
      if (c->header.attempt == Attempt{}) return;  // a replay: nobody waits for an answer
      return refuse(e, c->header, Reason::refused, "this transfer has ended here already", false);
    }
    if (c->spans > config_.spans_max)
      return refuse(e, c->header, Reason::refused,
                    std::to_string(c->spans) + " spans, limit " +
                        std::to_string(config_.spans_max) + " (Config::spans_max)",
                    false);
    if (receives_.size() >= config_.receives_max)
      return refuse(e, c->header, Reason::refused,
                    std::to_string(receives_.size()) +
                        " transfers are being received, the limit (Config::receives_max)",
                    false);
    Duration const limit = std::min(c->remaining, config_.receive_limit);
    auto t = std::make_unique<Receive>(ready_, deadlines_, now_, now_ + limit, e, *c);
    Receive& r = *t;
    ++e.users;
    p.receiving.emplace(id, &r);
    receives_.add(std::move(t));
    metrics_.received.started.add();
    this->record(Stage::control_received, id);
    r.task = ReceivePipeline<Base>::run(*this, r);
    r.task.start();
  }

  void refuse(Endpoint& e, wire::Header const& h, Reason reason, std::string const& why,
              bool stale) {
    metrics_.received.started.add();
    metrics_.received.ended[static_cast<std::size_t>(reason)].add();
    wire::Ready ready{};
    ready.header = h;
    ready.header.kind = MessageKind::ready;
    ready.reason = reason;
    ready.stale_generation = stale;
    ready.text = why;
    (void)this->reply(e, ready);
  }

  void on_descriptors(Endpoint& e, std::span<std::byte const> frame) {
    auto const d = wire::decode_descriptors(frame);
    if (!d) return metrics_.malformed_ignored.add();
    Receive* t = running_receive(e, d->header.transfer);
    if (!t || t->last_segment || d->sequence != t->segments + 1)
      return metrics_.stale_ignored.add();
    t->segments = d->sequence;
    t->last_segment = d->last_segment;
    if (t->refusal.empty()) t->refusal = t->unpacker.feed(d->segment);
    t->fence.wake();
  }

  void on_abort(Endpoint& e, std::span<std::byte const> frame) {
    auto const a = wire::decode_abort(frame);
    if (!a) return metrics_.malformed_ignored.add();
    if (Receive* t = running_receive(e, a->header.transfer)) {
      t->aborted = true;
      t->unsent = a->unsent;
      return t->fence.stop(a->reason == Reason::none ? Reason::protocol : a->reason,
                           "the sender gave up: " + std::string(a->text));
    }
    if (!this->hear_abort(e, *a)) metrics_.stale_ignored.add();
  }

  void on_places(Endpoint& e, std::span<std::byte const> frame) {
    auto const p = wire::decode_places(frame);
    if (!p) return metrics_.malformed_ignored.add();
    for (auto& t : sends_) {
      if (t->endpoint != &e || t->id != p->header.transfer) continue;
      if (!t->placed || t->attempt != p->header.attempt || t->placed_until != p->first ||
          p->count > t->chunks.size() - t->placed_until)
        return metrics_.malformed_ignored.add();
      t->placed_until += p->count;
      t->places.insert(t->places.end(), p->decoded.begin(), p->decoded.begin() + p->count);
      return t->fence.wake();
    }
    metrics_.stale_ignored.add();
  }

  Receive* running_receive(Endpoint& e, TransferId id) noexcept {
    auto& receiving = links_.peer(e.peer)->receiving;
    auto const it = receiving.find(id);
    return it != receiving.end() && it->second->endpoint == &e ? it->second : nullptr;
  }

  void end_connect(ConnectId id, PeerId peer, std::string const& why) {
    if (id == ConnectId{}) return;
    if (auto it = connecting_.find(id); it != connecting_.end()) {
      it->second->finish(peer, why);
      connecting_.erase(it);
    }
    for (auto& p : links_.peers()) {
      if (p->connecting != id) continue;
      p->connecting = {};
      if (why.empty()) continue;
      p->connect_error = why;
      ++p->connects_failed;
      p->wake_all();
    }
  }

  /// Every transfer of the endpoint ends, or tries again if READY has not said yes to it yet.
  void fail_endpoint(Endpoint& e, LinkDown how, std::string const& why) {
    links_.down(e);
    this->quarantine_winding(e);
    closing_endpoints_ = true;
    for (auto& t : sends_) {
      if (t->endpoint != &e) continue;
      if (t->flight && !t->accepted && (how == LinkDown::bye || t->faults == 0)) {
        t->lose_link(how);
        t->fence.wake();
      } else {
        t->fence.stop(Reason::peer_lost, why);
      }
    }
    for (auto& t : receives_)
      if (t->endpoint == &e) t->fence.stop(Reason::peer_lost, why);
  }

  /// Continues what was woken up to now; what is woken meanwhile waits for the next turn.
  unsigned run_ready() {
    ReadyList batch = std::exchange(ready_, ReadyList{});
    unsigned n = 0;
    for (; Waker* w = batch.pop(); ++n) static_cast<Fence*>(w)->resume();
    return n;
  }
  void reap() {
    for (auto* t : finished_sends_) sends_.remove(*t);
    for (auto* t : finished_receives_) receives_.remove(*t);
    finished_sends_.clear();
    finished_receives_.clear();
  }

  void housekeeping() {
    housekeeping_at_ = now_ + milliseconds(5);
    closing_endpoints_ = false;
    auto& all = links_.endpoints();
    for (auto it = all.begin(); it != all.end();) {
      this->advance_winding(*it->second);
      bool const gone = tend(*it->second, pen_context());
      it = gone ? all.erase(it) : std::next(it);
    }
    staging_.maintain();
    views_.wake_next();
    publish_gauges();
  }
  auto pen_context() noexcept {
    return PenContext<Base, S, Q>{*this, staging_, registry_, quarantine_, metrics_, now_};
  }

  void publish_gauges() noexcept {
    auto const g = staging_.gauges();
    metrics_.staging_free.set(g.free);
    metrics_.staging_leased.set(g.leased);
    metrics_.staging_quarantined.set(g.quarantined);
    metrics_.staging_abandoned.set(g.abandoned);
    metrics_.staging_total.set(g.total);
    metrics_.tags_active.set(registry_.active());
    metrics_.tags_quarantined.set(registry_.quarantined());
    metrics_.transfers_running.set(running());
  }

  /// Ends everything: transfers through their funnels, then workers, then the memory they could
  /// touch.
  void close() {
    stop_all();
    while (!sends_.empty() || !receives_.empty()) {
      run_ready();
      reap();
    }
    for (auto& [id, state] : connecting_) state->finish(PeerId{}, "the transceiver shuts down");
    for (auto& [id, e] : links_.endpoints()) {
      this->quarantine_winding(*e);
      destroy(*e, pen_context());
    }
  }

  [[no_unique_address]] Q quarantine_{};
  std::vector<std::pair<std::string, std::shared_ptr<Answer<PeerId>>>> awaited_;
  Running<Send> sends_;
  Running<Receive> receives_;
  std::unordered_map<ConnectId, std::shared_ptr<ConnectState>> connecting_;
  Instant housekeeping_at_{};
};

}  // namespace b10::core
