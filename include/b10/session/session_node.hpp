#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/native_plane.hpp>
#include <b10/session/arrivals.hpp>
#include <b10/session/peer_book.hpp>
#include <b10/session/rx_session.hpp>
#include <b10/session/session_config.hpp>
#include <b10/session/tx_session.hpp>

namespace b10::session {

struct NodeOptions {
  /// name: also the agent's. Its groups' pools are this node's memory; a receiver's are registered
  /// with its agent.
  NodeShape shape{};
  SessionTimes times{};
  NodeId id{};  ///< 0: drawn at random
  /// How long a REQUEST_DATA or CANCEL_SESSION may come before its session; how many are kept.
  Duration early_limit = seconds(60);
  std::size_t early_max = 4096;

  /// One configuration for all: the node's times, and what its peers must agree on.
  [[nodiscard]] static NodeOptions of(NodeShape shape, SessionConfig const& config) {
    NodeOptions o;
    o.shape = std::move(shape);
    o.shape.settings = config.agreed();
    o.times = config.times();
    o.early_limit = config.settings().early_limit;
    return o;
  }
};

/// Sessions of one rank: registers peers, makes sessions, carries their messages. Any thread may
/// call it; progress() by several threads takes turns. The agent and the plane outlive it.
template <TransferAgent A, NativePlane P>
class SessionNode {
 public:
  using Tx = TxSession<A>;
  using Rx = RxSession<A>;

  /// Throws Error{invalid_request} for a shape that no peer could use.
  SessionNode(A& agent, P& plane, NodeOptions options)
      : agent_(agent),
        plane_(plane),
        options_(checked(std::move(options))),
        services_{agent,
                  options_.shape,
                  options_.times,
                  [this](PeerInfo const& to, Message m) {
                    book_.send(to.route, encode(options_.id, std::move(m)));
                  },
                  [this](Duration limit) { turn(limit); },
                  [bell = bell_] { bell->ring(); }},
        book_(plane, options_.id, options_.shape),
        arrivals_(options_.early_limit, options_.early_max, retire_time(options_.times)) {}
  SessionNode(SessionNode const&) = delete;
  SessionNode& operator=(SessionNode const&) = delete;
  /// Transfers that still run read the AUX records of sessions: shut the agent down first, or close
  /// all sessions. Callbacks that come later do nothing.
  ~SessionNode() {
    std::lock_guard const lock(bell_->mutex);
    bell_->plane = nullptr;
  }

  /// Begins to make a peer known: it answers with its own shape. Never waits; see knows().
  void register_peer(std::string const& plane_address) {
    book_.greet(plane_address, agent_.local_descriptor());
  }
  /// Whether a peer of that name is registered; else see refusal().
  [[nodiscard]] bool knows(std::string const& name) const { return book_.find(name) != nullptr; }
  /// Why the last registration failed; empty if none did.
  [[nodiscard]] std::string refusal() const { return book_.refusal(); }

  /// The sender's session of a request: made by the first call, the same for all later ones. Throws
  /// SessionRetired for an id whose session is over, Error{invalid_request}.
  [[nodiscard]] std::shared_ptr<Tx> tx(TxOptions const& options) {
    std::shared_ptr<Tx> session;
    EarlyArrivals early;
    {
      std::lock_guard const lock(mutex_);
      require_usable(options.request, tx_);
      auto& slot = tx_[options.request];
      if (slot) return slot;
      try {
        slot = std::make_shared<Tx>(services_, options);
      } catch (...) {
        tx_.erase(options.request);
        throw;
      }
      ++constructed_;
      session = slot;
      early = arrivals_.take(options.request);
    }
    for (auto const& [from, wanted] : early.requests)
      if (auto const peer = book_.find(from)) session->admit(peer, wanted);
    for (auto const from : early.cancels) session->cancelled_by(from);
    return session;
  }
  /// The receiver's session of a request, as tx(). Throws Error{invalid_request} if a writer is not
  /// registered. Writers that send nothing to this rank (duplicated heads) are left out.
  [[nodiscard]] std::shared_ptr<Rx> rx(RxOptions const& options) {
    std::lock_guard const lock(mutex_);
    require_usable(options.request, rx_);
    auto& slot = rx_[options.request];
    if (slot) return slot;
    try {
      slot = std::make_shared<Rx>(services_, options, writers_of(options));
    } catch (...) {
      rx_.erase(options.request);
      throw;
    }
    ++constructed_;
    if (!arrivals_.take(options.request).cancels.empty()) (void)slot->cancel();
    return slot;
  }

  /// Takes in messages, looks after sessions; returns the messages taken in. Sleeps up to `limit`
  /// for the first one, less when a transfer of a session ends.
  std::size_t progress(Duration limit = {}) { return turn(limit); }

  [[nodiscard]] NodeShape const& shape() const noexcept { return options_.shape; }

  struct Gauges {
    std::size_t tx = 0, rx = 0, retired = 0, early = 0;
    std::uint64_t constructed = 0, ignored = 0;
    std::size_t peers = 0, routes = 0;  ///< routes: of the plane, to peers and a few others
  };
  [[nodiscard]] Gauges gauges() const {
    auto const peers = book_.peers(), routes = book_.routes();
    std::lock_guard const lock(mutex_);
    return {tx_.size(), rx_.size(), arrivals_.retired(), arrivals_.size(), constructed_, ignored_,
            peers,      routes};
  }

 private:
  /// What callbacks of transfers ring; they may come when the node has gone.
  struct Bell {
    explicit Bell(P& p) : plane(&p) {}
    void ring() {
      std::lock_guard const lock(mutex);
      if (plane) plane->wake();
    }
    std::mutex mutex{};
    P* plane;
  };

  static NodeOptions checked(NodeOptions o) {
    if (o.shape.name.empty() || o.shape.name.size() > 255)
      throw Error(Reason::invalid_request, "NodeShape::name has " +
                                               std::to_string(o.shape.name.size()) +
                                               " bytes, allowed are 1 to 255");
    for (auto const& g : o.shape.groups)
      if (auto const bad = detail::bad_pool(g, o.shape.place); !bad.empty())
        throw Error(Reason::invalid_request, bad);
    std::random_device random;
    while (o.id == NodeId{0}) o.id = NodeId{std::uint64_t{random()} << 32 | random()};
    return o;
  }
  /// Longer than any message about the request can be on its way.
  static Duration retire_time(SessionTimes const& t) {
    return std::max(seconds(120), Duration{2 * std::max(t.session.ns, t.operation.ns)});
  }
  template <class Sessions>
  void require_usable(RequestId request, Sessions& sessions) {
    if (request == RequestId{}) throw Error(Reason::invalid_request, "request id 0 means none");
    auto const it = sessions.find(request);
    if (arrivals_.is_retired(request) || (it != sessions.end() && it->second->closed()))
      throw SessionRetired(request);
  }
  [[nodiscard]] std::vector<std::shared_ptr<PeerInfo const>> writers_of(RxOptions const& o) const {
    std::vector<std::shared_ptr<PeerInfo const>> writers;
    for (auto const& name : o.writers) {
      auto const peer = book_.find(name);
      if (!peer)
        throw Error(Reason::invalid_request,
                    "\"" + name + "\" is not registered: " +
                        (book_.refusal().empty() ? "register_peer first" : book_.refusal()));
      bool sends = false;
      for (auto const& link : peer->links) sends |= !link.received.empty();
      if (sends) writers.push_back(peer);
    }
    if (writers.empty())
      throw Error(Reason::invalid_request,
                  "no writer of RxOptions::writers holds anything of this "
                  "rank's layers and heads");
    return writers;
  }

  std::size_t turn(Duration limit) {
    std::lock_guard const one(progress_);
    book_.flush();
    if (limit > Duration{}) plane_.wait(limit);
    std::size_t taken = 0;
    while (auto const bytes = plane_.receive()) {
      ++taken;
      take(*bytes);
    }
    look_after();
    return taken;
  }
  void take(std::span<std::byte const> bytes) {
    auto envelope = decode(bytes);
    if (!envelope) return ignore();
    auto const from = envelope->from;
    if (auto* hello = std::get_if<RegisterPeer>(&envelope->message)) return meet(from, *hello);
    if (auto const* no = std::get_if<RefusePeer>(&envelope->message))
      return book_.refused("the peer refused this node: " + no->why);
    auto const peer = book_.find(from);
    if (!peer) return ignore();  // a node that has restarted since, or a stranger
    std::visit([&](auto& m) { handle(peer, m); }, envelope->message);
  }
  void meet(NodeId from, RegisterPeer const& hello) {
    auto const lost = book_.meet(from, hello, [&] { return agent_.local_descriptor(); });
    if (!lost) return;
    for (auto const& s : all(tx_)) s->peer_lost(*lost);
    for (auto const& s : all(rx_)) s->peer_lost(*lost);
  }
  void handle(std::shared_ptr<PeerInfo const> const& peer, RequestData const& m) {
    std::shared_ptr<Tx> session;
    bool refused = false, cancelled = false;
    {
      std::lock_guard const lock(mutex_);
      if (auto const it = tx_.find(m.request); it != tx_.end())
        session = it->second;
      else
        refused = !arrivals_.keep(peer->id, m, agent_.now());
      cancelled = refused && arrivals_.was_cancelled(m.request);
    }
    if (session) session->admit(peer, m);
    if (cancelled)
      services_.post(*peer, CancelSession{m.request, false});
    else if (refused)
      services_.post(*peer, KvResult{m.request,
                                     options_.shape.place.tp_rank,
                                     {},
                                     m.slice,
                                     true,
                                     ResultStatus::failed,
                                     0,
                                     "the request is retired at the sender, or too many wait "
                                     "there (NodeOptions::early_max)",
                                     Reason::refused});
  }
  void handle(std::shared_ptr<PeerInfo const> const& peer, KvResult const& m) {
    if (auto const s = find(rx_, m.request)) return s->result(peer->id, m);
    ignore();
  }
  void handle(std::shared_ptr<PeerInfo const> const& peer, AuxResult const& m) {
    if (auto const s = find(rx_, m.request)) return s->result(peer->id, m);
    ignore();
  }
  void handle(std::shared_ptr<PeerInfo const> const& peer, CancelSession const& m) {
    std::shared_ptr<Tx> tx;
    std::shared_ptr<Rx> rx;
    {
      std::lock_guard const lock(mutex_);
      if (auto const it = tx_.find(m.request); m.by_receiver && it != tx_.end()) tx = it->second;
      if (auto const it = rx_.find(m.request); !m.by_receiver && it != rx_.end()) rx = it->second;
      if (!tx && !rx) arrivals_.cancel(peer->id, m.request, agent_.now());
    }
    if (tx) tx->cancelled_by(peer->id);
    if (rx) rx->cancelled_by(peer->id);
  }
  template <class M>
  void handle(std::shared_ptr<PeerInfo const> const&, M const&) {}

  void look_after() {
    for (auto const& s : all(tx_)) s->poll();
    for (auto const& s : all(rx_)) s->poll();
    std::lock_guard const lock(mutex_);
    auto const now = agent_.now();
    auto const sweep = [&](auto& sessions) {
      std::erase_if(sessions, [&](auto const& item) {
        if (!item.second->closed()) return false;
        arrivals_.retire(item.first, item.second->reason(), now);
        return true;
      });
    };
    sweep(tx_);
    sweep(rx_);
    arrivals_.expire(now);
  }
  template <class Sessions>
  [[nodiscard]] auto all(Sessions const& sessions) const {
    std::lock_guard const lock(mutex_);
    std::vector<typename Sessions::mapped_type> list;
    for (auto const& item : sessions) list.push_back(item.second);
    return list;
  }
  template <class Sessions>
  [[nodiscard]] typename Sessions::mapped_type find(Sessions const& sessions, RequestId id) const {
    std::lock_guard const lock(mutex_);
    auto const it = sessions.find(id);
    return it == sessions.end() ? nullptr : it->second;
  }
  void ignore() {
    std::lock_guard const lock(mutex_);
    ++ignored_;
  }

  A& agent_;
  P& plane_;
  NodeOptions const options_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>(plane_);
  SessionServices<A> services_;
  PeerBook<P> book_;
  std::mutex progress_{};       // one thread at a time takes messages in
  mutable std::mutex mutex_{};  // guards what follows; never held while a session's lock is taken,
                                // but for closed() and the cancel of a new one
  std::map<RequestId, std::shared_ptr<Tx>> tx_{};
  std::map<RequestId, std::shared_ptr<Rx>> rx_{};
  Arrivals arrivals_;
  std::uint64_t constructed_ = 0;
  std::uint64_t ignored_ = 0;
};

}  // namespace b10::session
