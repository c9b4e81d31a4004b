#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <b10/core/answer.hpp>
#include <b10/core/lane.hpp>
#include <b10/core/plan.hpp>
#include <b10/grant.hpp>
#include <b10/steady_clock.hpp>
#include <b10/transfer.hpp>

namespace b10 {

/// One WRITE: sources[i] is copied to destinations[i] on the peer. Both lists are read during the
/// call only.
template <class SourceReady>
struct BasicWrite {
  RequestId request{};  ///< the engine's id on the wire; not 0
  std::span<LocalSpan const> sources{};
  std::span<RemoteSpan const> destinations{};
  SourceReady ready{};     ///< fires when the sources hold their data; default: they do
  Duration deadline{};     ///< from this call to the outcome; > 0
  Duration queue_limit{};  ///< longest wait for admission, within deadline; 0: all of it
};

/// Moves KV cache spans between nodes, composed of five policies. Any thread may call its
/// functions, except progress(), which belongs to one thread.
template <b10::Staging S, TagScheme G, b10::Completion C, b10::Quarantine Q, b10::Transport T>
class BasicTransceiver {
  using Lane = core::Lane<S, G, C, Q, T>;
  using Door = core::Door<Lane>;

 public:
  using Staging = S;
  using Tags = G;
  using Completion = C;
  using Quarantine = Q;
  using Transport = T;
  using Config = BasicConfig<typename S::Options, typename T::Options>;
  using Write = BasicWrite<typename S::CopyEngine::SourceReady>;

  /// A connect() under way.
  class Connecting {
   public:
    explicit Connecting(std::shared_ptr<core::ConnectState> s) : state_(std::move(s)) {}
    [[nodiscard]] bool done() const { return state_->done(); }
    [[nodiscard]] std::optional<PeerId> peer() const { return state_->peer(); }
    [[nodiscard]] std::string error() const { return state_->error(); }

   private:
    friend class BasicTransceiver;
    std::shared_ptr<core::ConnectState> state_;
  };

  /// Starts listening and, in thread mode, progressing. Throws Error naming value, limit and knob.
  explicit BasicTransceiver(Config config)
      : config_(checked(std::move(config))),
        grants_(std::make_shared<core::GrantTable>(config_.grants)),
        lane_(config_, hello(config_), grants_),
        door_(std::make_shared<Door>(typename Door::Bell{
            &lane_.transport(), [](void* t) noexcept { static_cast<T*>(t)->wake(); }})) {
    if (config_.progress == Progress::thread) thread_ = std::thread([this] { run(); });
  }
  BasicTransceiver(BasicTransceiver const&) = delete;
  BasicTransceiver& operator=(BasicTransceiver const&) = delete;
  ~BasicTransceiver() { shutdown(seconds(1)); }

  /// Where peers connect to.
  [[nodiscard]] std::string address() const { return lane_.transport().address(); }

  /// Makes a region reachable; only registered memory can ever be written by peers. Throws Error.
  void register_memory(LocalSpan region) { grants_->map().add(region); }
  /// Throws Error{refused} while a live grant or a copy is in it.
  void deregister_memory(LocalSpan region) { grants_->map().remove(region); }

  [[nodiscard]] Connecting begin_connect(std::string address, Duration limit) {
    auto state = std::make_shared<core::ConnectState>();
    struct Connect : Door::Command {
      std::string address;
      Instant deadline;
      std::shared_ptr<core::ConnectState> state;
      void run(Lane& lane) override { lane.connect(address, deadline, std::move(state)); }
    };
    auto c = std::make_unique<Connect>();
    c->address = std::move(address);
    c->deadline = lane_.transport().now() + limit;
    c->state = state;
    if (!door_->post(std::move(c))) state->finish(PeerId{}, "the transceiver is shut down");
    return Connecting(std::move(state));
  }
  /// Thread mode. Throws Error{peer_lost} saying why, by `limit`.
  PeerId connect(std::string const& address, Duration limit) {
    Connecting const c = begin_connect(address, limit);
    c.state_->wait(limit + milliseconds(200));
    if (auto p = c.peer()) return *p;
    throw Error(Reason::peer_lost, "connect to " + address + ": " +
                                       (c.done() ? c.error() : "no answer within the limit"));
  }
  /// Sends bytes to a connected peer, beside transfers and in no order with them: a transfer's end
  /// is never told so. Each that is sent arrives once, in order, unless the link is lost or the
  /// peer does not read its own (Config::notes_max). Any thread, not from a callback. Throws
  /// Error{invalid_request} for more than wire::note_bytes_max bytes, Error{peer_lost} without a
  /// live link.
  void notify(PeerId peer, std::span<std::byte const> bytes) {
    if (bytes.size() > wire::note_bytes_max)
      throw Error(Reason::invalid_request, "a notification of " + std::to_string(bytes.size()) +
                                               " bytes, the limit is " +
                                               std::to_string(wire::note_bytes_max));
    std::vector<std::byte> const copy(bytes.begin(), bytes.end());
    auto const sent = ask<bool>([peer, copy](Lane& l) { return l.send_note(peer, copy); });
    if (!sent.value_or(false))
      throw Error(Reason::peer_lost, "a notification was not sent to peer " +
                                         std::to_string(to_integer(peer)) +
                                         ": it is not connected, or the lane does not answer");
  }
  /// What peers have sent since the last call. Any thread.
  [[nodiscard]] std::vector<Notification> notifications() { return lane_.notes().take(); }
  /// The peer of that name if it is connected, or once it connects within `limit` (thread mode).
  [[nodiscard]] std::optional<PeerId> peer(std::string_view name, Duration limit = {}) {
    auto answer = std::make_shared<core::Answer<PeerId>>();
    if (config_.progress == Progress::manual)
      lane_.await_peer(name, answer);
    else if (!door_->post(std::make_unique<AwaitPeer>(std::string(name), answer)))
      return std::nullopt;
    return answer->wait(config_.progress == Progress::manual ? Duration{}
                                                             : std::max(limit, milliseconds(100)));
  }

  /// Starts a WRITE. Throws Error{invalid_request} for arguments that can never work (nothing is
  /// sent then). An empty request has landed at once, with no traffic and no id.
  Transfer write(PeerId peer, Write const& w) {
    check(w);
    auto state = std::make_shared<core::TransferState>();
    core::Plan plan = core::make_plan(w.sources, w.destinations, config_.spans_max);
    if (config_.progress == Progress::manual) state->drive = [this] { progress(); };
    std::weak_ptr<Door> const door = door_;
    std::weak_ptr<core::TransferState> const weak = state;
    state->cancel = [door, weak] {
      auto d = door.lock();
      auto s = weak.lock();
      if (d && s) d->post(std::make_unique<Cancel>(std::move(s)));
    };
    if (plan.bytes == 0) {
      state->finish(Outcome{Status::landed, Reason::none, 0, true, true, {}}, {});
      return Transfer(std::move(state));
    }
    auto s = std::make_unique<Start>();
    s->state = state;
    s->peer = peer;
    s->request = w.request;
    s->plan = std::move(plan);
    s->ready = w.ready;
    s->start = lane_.transport().now();
    s->deadline = s->start + w.deadline;
    s->queue_deadline =
        s->start + (w.queue_limit > Duration{} ? std::min(w.queue_limit, w.deadline) : w.deadline);
    if (!door_->post(std::move(s)))
      state->finish(Outcome{Status::failed, Reason::shutting_down, 0, true, true,
                            "the transceiver is shut down"},
                    {});
    return Transfer(std::move(state));
  }

  /// Lets peers (or only one) write these spans for that request. Throws Error{invalid_request}.
  /// `admits`: asked with a peer's name before its WRITE is accepted, on the lane's thread; it must
  /// not block. False, or anything thrown, refuses that WRITE.
  [[nodiscard]] Grant grant(RequestId request, std::span<LocalSpan const> spans, Duration limit,
                            std::optional<PeerId> only_from = std::nullopt,
                            std::function<bool(std::string_view peer)> admits = nullptr) {
    std::weak_ptr<Door> const door = door_;
    std::weak_ptr<core::GrantTable> const table = grants_;
    return Grant(grants_->grant(request, spans, only_from, lane_.transport().now() + limit,
                                [&](core::GrantRecord& record) {
                                  record.admits = std::move(admits);
                                  record.revoked = [door, request] {
                                    if (auto d = door.lock())
                                      d->post(std::make_unique<Revoked>(request));
                                  };
                                  record.forget = [table, request] {
                                    if (auto t = table.lock()) t->forget(request);
                                  };
                                  if (config_.progress == Progress::manual)
                                    record.drive = [this] { progress(); };
                                }));
  }

  /// Manual mode: one turn of the lane; returns how much happened.
  unsigned progress() { return lane_.turn(*door_); }

  /// Readable from any thread at any time.
  [[nodiscard]] Metrics const& metrics() const noexcept { return lane_.metrics(); }
  [[nodiscard]] Health health() const noexcept {
    return lane_.quarantine_is_full() ? Health::degraded : Health::ok;
  }
  /// What is composed, and what the transport really uses. Thread mode: answered by the lane within
  /// a second.
  [[nodiscard]] std::string explain() {
    auto const list = {S::name, S::Slicing::name, S::CopyEngine::name, G::name, C::name,
                       Q::name, T::name};
    std::string text = "\"" + config_.name + "\"";
    for (std::string_view name : list) text += ", " + std::string(name);
    text += "\nstaging " + std::to_string(config_.staging.buffers) + " x " +
            std::to_string(config_.staging.buffer_bytes) + " bytes in slices of " +
            std::to_string(S::Slicing::slice_bytes(config_.staging.buffer_bytes)) + ", up to " +
            std::to_string(std::min(S::Slicing::depth, config_.max_in_flight_ops)) +
            " of a transfer in flight, quarantine limit " +
            std::to_string(lane_.quarantine_bytes_max()) + " bytes and " +
            std::to_string(config_.generations_penned_max) + " generations\n";
    return text + ask<std::string>([](Lane& l) {
                    return l.transport().explain() + l.explain_reach();
                  }).value_or("the lane does not answer\n");
  }
  [[nodiscard]] std::vector<core::FlightEvent> flight_events() {
    return ask<std::vector<core::FlightEvent>>([](Lane& l) { return l.recorder().events(); })
        .value_or(std::vector<core::FlightEvent>{});
  }

  /// Idempotent; not from a callback. New calls are refused, running transfers get up to `limit`,
  /// then end with shutting_down; peers are told in order. Ends within `limit` plus a few turns.
  void shutdown(Duration limit) {
    if (shut_.exchange(true)) return;
    if (config_.progress == Progress::thread) {
      ask<bool>([](Lane&) { return true; });  // what was posted before has been taken up
      door_->close();
      stop_limit_.store(limit.ns);
      stopping_.store(true);
      lane_.transport().wake();
      thread_.join();
    } else {
      door_->close();
      wind_down(Duration{});
    }
  }

 private:
  struct Start : Door::Command {
    std::shared_ptr<core::TransferState> state;
    PeerId peer{};
    RequestId request{};
    core::Plan plan;
    typename S::CopyEngine::SourceReady ready{};
    Instant start{}, deadline{}, queue_deadline{};
    void run(Lane& lane) override {
      if (!lane.links().peer(peer)) {
        state->finish(Outcome{Status::failed, Reason::invalid_request, 0, true, true,
                              "peer " + std::to_string(to_integer(peer)) +
                                  " is not known here: connect first"},
                      {});
        return;
      }
      auto t = std::make_unique<typename Lane::Send>(lane.ready_list(), lane.deadlines(), start,
                                                     queue_deadline);
      t->state = std::move(state);
      t->peer = peer;
      t->request = request;
      t->plan = std::move(plan);
      t->source_ready = std::move(ready);
      t->deadline = deadline;
      lane.start_send(std::move(t));
    }
    ~Start() override {
      // Posted, never run: the lane is gone.
      if (state)
        state->finish(Outcome{Status::failed, Reason::shutting_down, 0, true, true,
                              "the transceiver shut down"},
                      {});
    }
  };
  struct Cancel : Door::Command {
    explicit Cancel(std::shared_ptr<core::TransferState> s) : state(std::move(s)) {}
    std::shared_ptr<core::TransferState> state;
    void run(Lane& lane) override { lane.cancel_send(state.get()); }
  };
  struct AwaitPeer : Door::Command {
    AwaitPeer(std::string n, std::shared_ptr<core::Answer<PeerId>> a)
        : name(std::move(n)), answer(std::move(a)) {}
    std::string name;
    std::shared_ptr<core::Answer<PeerId>> answer;
    void run(Lane& lane) override { lane.await_peer(name, std::move(answer)); }
  };
  struct Revoked : Door::Command {
    explicit Revoked(RequestId r) : request(r) {}
    RequestId request;
    void run(Lane& lane) override { lane.grant_revoked(request); }
  };
  template <class R>
  struct Question : Door::Command {
    std::function<R(Lane&)> question;
    std::shared_ptr<core::Answer<R>> answer;
    void run(Lane& lane) override { answer->give(question(lane)); }
  };

  /// Runs a question on the lane's thread; nothing if it does not answer within a second.
  template <class R, class F>
  std::optional<R> ask(F question) {
    if (config_.progress == Progress::manual) return R(question(lane_));
    auto q = std::make_unique<Question<R>>();
    q->question = std::move(question);
    auto answer = std::make_shared<core::Answer<R>>();
    q->answer = answer;
    if (!door_->post(std::move(q))) return std::nullopt;
    return answer->wait(seconds(1));
  }

  static Config checked(Config c) {
    auto refuse = [](std::string const& why) { throw Error(Reason::invalid_request, why); };
    if (c.name.empty() || c.name.size() > 255)
      refuse("Config::name has " + std::to_string(c.name.size()) + " bytes, allowed are 1 to 255");
    if (c.layout.size() > 4096)
      refuse("Config::layout has " + std::to_string(c.layout.size()) + " bytes, the limit is 4096");
    if (c.max_in_flight_ops == 0) refuse("Config::max_in_flight_ops is 0, it must be at least 1");
    if (c.spans_max == 0 || c.spans_max > 0xffff'ffffu)
      refuse("Config::spans_max is " + std::to_string(c.spans_max) +
             ", allowed are 1 to 4294967295");
    if (c.receive_limit <= Duration{}) refuse("Config::receive_limit must be positive");
    return c;
  }
  static Hello hello(Config const& c) {
    Hello h;
    h.name = c.name;
    if constexpr (requires { c.transport.draw_incarnation(); }) {
      h.incarnation = c.transport.draw_incarnation();  // a simulated node: it follows from the seed
    } else {
      std::random_device random;
      auto draw = [&] { return std::uint64_t{random()} << 32 | random(); };
      h.incarnation = {draw(), draw()};
    }
    h.policies = std::string(G::name);
    h.layout = c.layout;
    h.slice_bytes = S::Slicing::slice_bytes(c.staging.buffer_bytes);
    return h;
  }
  static void check(Write const& w) {
    if (w.request == RequestId{})
      throw Error(Reason::invalid_request, "Write::request is 0, which names no request");
    if (w.deadline <= Duration{})
      throw Error(Reason::invalid_request, "Write::deadline is " + std::to_string(w.deadline.ns) +
                                               " ns, it must be positive");
  }

  void run() {
    Instant last_work = lane_.transport().now();
    while (!stopping_.load(std::memory_order_acquire)) {
      if (lane_.turn(*door_) > 0)
        last_work = lane_.now();
      else if (lane_.now() - last_work >= config_.spin)
        lane_.transport().wait(lane_.sleep_until());
    }
    wind_down(Duration{stop_limit_.load()});
  }
  /// Lets transfers end, stops the rest, says goodbye. Every loop is bounded.
  void wind_down(Duration limit) {
    turn_until(limit, [&] { return lane_.running() == 0; });
    lane_.stop_all();
    turn_until(milliseconds(200), [&] { return lane_.running() == 0; });
    lane_.say_bye();
    turn_until(milliseconds(200), [&] { return !lane_.any_link_up(); });
  }
  template <class Done>
  void turn_until(Duration limit, Done done) {
    auto const until = steady_now() + limit;
    while (!done() && steady_now() < until) lane_.turn(*door_);
  }

  Config const config_;
  std::shared_ptr<core::GrantTable> grants_;
  Lane lane_;
  std::shared_ptr<Door> door_;
  std::atomic<bool> shut_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> stop_limit_{0};
  std::thread thread_;
};

}  // namespace b10
