#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/grant.hpp>
#include <b10/notification.hpp>
#include <b10/session/agent_descriptor.hpp>
#include <b10/session/agent_receive.hpp>
#include <b10/session/agent_status.hpp>
#include <b10/session/transfer_agent.hpp>
#include <b10/steady_clock.hpp>
#include <b10/transfer.hpp>

namespace b10 {

struct AgentOptions {
  std::string name{};                           ///< Config::name of the transceiver
  Duration connect_limit = seconds(5);          ///< for one attempt to reach a remote
  std::function<Instant()> clock = steady_now;  ///< the transport's, where it is not the machine's
  /// Called for each write that ended here, with whether it landed; not for a receive that this
  /// node cancelled itself. On the lane's thread; must not block; what it throws is ignored.
  AgentReceive::Listener on_write = nullptr;
  /// Whether a request is still wanted: asked before a peer's write is accepted. On the lane's
  /// thread; must not block. False, or anything thrown, refuses the write.
  std::function<bool(RequestId)> wanted = nullptr;
};

/// The transfer-agent surface over any composition: for engines with sessions of their own, and for
/// the session layer. The transceiver outlives the agent. Any thread.
template <class T>
class Agent {
 public:
  using SourceReady = decltype(std::declval<typename T::Write>().ready);
  using Status = AgentStatus;
  using Expectation = AgentExpectation;

  Agent(T& transceiver, AgentOptions options)
      : transceiver_(transceiver), options_(std::move(options)) {}
  Agent(Agent const&) = delete;
  Agent& operator=(Agent const&) = delete;

  [[nodiscard]] Instant now() const { return options_.clock(); }

  /// Makes regions writable by peers (under grants). All or none. Throws Error{invalid_request}:
  /// the list is empty, or what BasicTransceiver::register_memory refuses.
  void register_memory(std::span<LocalSpan const> regions) {
    auto const running = enter();
    if (regions.empty()) refuse("register_memory with an empty list");
    std::lock_guard const lock(mutex_);
    std::size_t done = 0;
    try {
      for (; done < regions.size(); ++done) transceiver_.register_memory(regions[done]);
    } catch (...) {
      while (done > 0) transceiver_.deregister_memory(regions[--done]);
      throw;
    }
    regions_.insert(regions_.end(), regions.begin(), regions.end());
  }
  /// Throws Error{refused} while a grant or a copy is in one of them; those before it are gone
  /// then.
  void deregister_memory(std::span<LocalSpan const> regions) {
    auto const running = enter();
    if (regions.empty()) refuse("deregister_memory with an empty list");
    std::lock_guard const lock(mutex_);
    for (auto const& r : regions) {
      transceiver_.deregister_memory(r);
      std::erase(regions_, r);
    }
  }

  /// The bytes to ship to peers.
  [[nodiscard]] std::vector<std::byte> local_descriptor() const {
    auto const running = enter();
    std::lock_guard const lock(mutex_);
    AgentDescriptor d;
    d.name = options_.name;
    d.address = transceiver_.address();
    d.features = agent_features;
    for (auto const& r : regions_) d.regions.push_back(as_remote(r));
    return encode_agent_descriptor(d);
  }
  /// Makes a peer addressable and begins to connect; never waits (see reach). Loading the same
  /// bytes again changes nothing, except that a failed connect is tried again. Other bytes connect
  /// anew: the old endpoint drains and no generation recurs. Throws Error{invalid_request} naming
  /// both values.
  void load_remote(std::string const& name, std::span<std::byte const> bytes) {
    auto const running = enter();
    auto d = decode_agent_descriptor(bytes);
    if (d.name != name) refuse("the descriptor of \"" + name + "\" is one of \"" + d.name + "\"");
    if ((d.features & agent_features) != agent_features)
      refuse("\"" + name + "\" has features " + std::to_string(d.features) + ", this node needs " +
             std::to_string(agent_features) + ": upgrade it");
    std::lock_guard const lock(mutex_);
    auto const it = remotes_.find(name);
    if (it != remotes_.end() && it->second.descriptor.address == d.address &&
        reach_of(it->second) != Reach::failed) {
      it->second.descriptor = std::move(d);
      return;
    }
    auto connecting = transceiver_.begin_connect(d.address, options_.connect_limit);
    remotes_.insert_or_assign(name, Remote{std::move(d), std::move(connecting)});
  }
  /// Forgets a peer; transfers under way go on. Unknown names are no error.
  void invalidate_remote(std::string const& name) {
    std::lock_guard const lock(mutex_);
    remotes_.erase(name);
  }
  [[nodiscard]] Reach reach(std::string const& name) const {
    std::lock_guard const lock(mutex_);
    auto const it = remotes_.find(name);
    return it == remotes_.end() ? Reach::unknown : reach_of(it->second);
  }
  /// Whether all spans lie in memory that the peer had registered when it made the descriptor that
  /// was loaded last.
  [[nodiscard]] bool check_remote(std::string const& name,
                                  std::span<RemoteSpan const> spans) const {
    std::lock_guard const lock(mutex_);
    auto const it = remotes_.find(name);
    if (it == remotes_.end()) return false;
    return std::all_of(spans.begin(), spans.end(), [&](RemoteSpan const& s) {
      auto const& regions = it->second.descriptor.regions;
      return std::any_of(regions.begin(), regions.end(), [&](RemoteSpan const& r) {
        return s.device == r.device && s.address >= r.address && s.bytes <= r.bytes &&
               s.address - r.address <= r.bytes - s.bytes;
      });
    });
  }

  /// Starts a transfer. Throws Error{invalid_request} for what can never work: READ, counts or
  /// sizes that differ (naming the index), an unknown or unreached remote. Two empty lists have
  /// succeeded at once. Device sources without request id or event, and a refused post, are a
  /// failed Status.
  [[nodiscard]] Status submit(Submission<SourceReady> const& s) {
    auto const running = enter();
    if (s.op != AgentOp::write) refuse("READ is not supported: the side that holds data writes");
    if (s.sources.empty() && s.destinations.empty())
      return Status::ended(Outcome{b10::Status::landed, Reason::none, 0, true, true, {}});
    check_lists(s.sources, s.destinations);
    SourceReady ready{};
    bool const has_event = find_event(s, ready);
    bool const on_device = std::any_of(s.sources.begin(), s.sources.end(),
                                       [](auto const& x) { return x.device != Device::host; });
    if (s.request == RequestId{}) return failed("a transfer without a request id");
    if (on_device && !has_event)
      return failed("sources in device memory without a source-ready event: record one first");
    typename T::Write write{.request = s.request,
                            .sources = s.sources,
                            .destinations = s.destinations,
                            .ready = std::move(ready),
                            .deadline = s.deadline};
    return Status(transceiver_.write(peer_of(std::string(s.remote)), write), s.deadline);
  }
  /// The same from parallel arrays of equal length.
  struct Arrays {
    std::span<std::uint64_t const> addresses{};
    std::span<std::uint64_t const> bytes{};
    std::span<Device const> devices{};
  };
  [[nodiscard]] Status submit(Submission<SourceReady> s, Arrays const& from, Arrays const& to) {
    std::vector<LocalSpan> sources;
    std::vector<RemoteSpan> destinations;
    for (auto const* a : {&from, &to})
      if (a->addresses.size() != a->bytes.size() || a->addresses.size() != a->devices.size())
        refuse("arrays of " + std::to_string(a->addresses.size()) + " addresses, " +
               std::to_string(a->bytes.size()) + " sizes and " + std::to_string(a->devices.size()) +
               " devices");
    for (std::size_t i = 0; i < from.addresses.size(); ++i)
      sources.push_back(
          {reinterpret_cast<std::byte*>(from.addresses[i]), from.bytes[i], from.devices[i]});
    for (std::size_t i = 0; i < to.addresses.size(); ++i)
      destinations.push_back({to.addresses[i], to.bytes[i], to.devices[i]});
    s.sources = sources;
    s.destinations = destinations;
    return submit(s);
  }

  /// Lets the peers named in `from` write these spans for the request, also peers that connect
  /// later; the expectation revokes when it goes. Throws Error{invalid_request}.
  [[nodiscard]] Expectation expect(RequestId request, std::span<LocalSpan const> spans,
                                   std::span<std::string const> from, Duration limit) {
    auto const running = enter();
    auto admits = [names = std::vector<std::string>(from.begin(), from.end()),
                   wanted = options_.wanted, request](std::string_view peer) {
      return std::find(names.begin(), names.end(), peer) != names.end() &&
             (!wanted || wanted(request));
    };
    auto receive = std::make_shared<AgentReceive>(
        transceiver_.grant(request, spans, limit, std::nullopt, std::move(admits)),
        options_.on_write);
    receive->listen();
    std::lock_guard const lock(mutex_);
    std::erase_if(receives_, [](auto const& item) { return item.second.expired(); });
    receives_[request] = receive;
    return Expectation(std::move(receive));
  }
  /// Ends the permission of a request: the proof, or nothing if a copy still runs after `limit`
  /// (ask again), if the request is unknown, or if the proof was given already.
  [[nodiscard]] std::optional<b10::Quiescent> cancel_receive(RequestId request, Duration limit) {
    std::shared_ptr<AgentReceive> receive;
    {
      std::lock_guard const lock(mutex_);
      auto const it = receives_.find(request);
      if (it != receives_.end()) receive = it->second.lock();
    }
    return receive ? receive->revoke(limit) : std::nullopt;
  }
  /// Requests that peers may write now, or whose last copies have not ended.
  [[nodiscard]] std::size_t active_receives() const {
    std::lock_guard const lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(receives_.begin(), receives_.end(), [](auto const& item) {
          auto const receive = item.second.lock();
          return receive && !receive->proven();
        }));
  }

  /// Sends a message to a connected remote, see BasicTransceiver::notify. Never a way to tell that
  /// a transfer has ended. Throws as that does, and Error{invalid_request} for an unknown remote.
  void notify(std::string const& remote, std::span<std::byte const> message) {
    auto const running = enter();
    transceiver_.notify(peer_of(remote), message);
  }
  /// Messages of peers since the last call, each once and those of one peer in order.
  [[nodiscard]] std::vector<Notification> notifications() {
    auto const running = enter();
    return transceiver_.notifications();
  }

  /// An event that a later submit() of the request without one will use.
  void record_source_ready(RequestId request, SourceReady ready) {
    std::lock_guard const lock(mutex_);
    recorded_.insert_or_assign(request, std::move(ready));
  }
  void discard_source_ready(RequestId request) {
    std::lock_guard const lock(mutex_);
    recorded_.erase(request);
  }

  /// Idempotent. Waits for calls under way, then shuts the transceiver down within `limit`; later
  /// calls throw Error{shutting_down}.
  void shutdown(Duration limit) {
    if (shut_.exchange(true)) return;        // first, so that new calls cannot hold this one up
    { std::unique_lock const lock(door_); }  // those under way have ended
    transceiver_.shutdown(limit);
  }

 private:
  struct Remote {
    AgentDescriptor descriptor;
    typename T::Connecting connecting;
  };

  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  static Status failed(std::string why) {
    return Status::ended(
        Outcome{b10::Status::failed, Reason::invalid_request, 0, true, true, std::move(why)});
  }
  static void check_lists(std::span<LocalSpan const> sources,
                          std::span<RemoteSpan const> destinations) {
    if (sources.size() != destinations.size())
      refuse(std::to_string(sources.size()) + " sources and " +
             std::to_string(destinations.size()) + " destinations: they go in pairs");
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (sources[i].bytes != destinations[i].bytes)
        refuse("pair " + std::to_string(i) + " has a source of " +
               std::to_string(sources[i].bytes) + " bytes and a destination of " +
               std::to_string(destinations[i].bytes));
  }
  [[nodiscard]] std::shared_lock<std::shared_mutex> enter() const {
    std::shared_lock lock(door_);
    if (shut_) throw Error(Reason::shutting_down, "the agent is shut down");
    return lock;
  }
  [[nodiscard]] static Reach reach_of(Remote const& r) {
    if (!r.connecting.done()) return Reach::connecting;
    return r.connecting.peer() ? Reach::connected : Reach::failed;
  }
  [[nodiscard]] PeerId peer_of(std::string const& name) const {
    std::lock_guard const lock(mutex_);
    auto const it = remotes_.find(name);
    if (it == remotes_.end()) refuse("\"" + name + "\" is not loaded: load_remote first");
    if (auto const peer = it->second.connecting.peer()) return *peer;
    refuse("\"" + name + "\" is not connected" +
           (it->second.connecting.done() ? ": " + it->second.connecting.error() : " yet"));
  }
  /// The submission's own event, or the one recorded for its request, which is used up.
  [[nodiscard]] bool find_event(Submission<SourceReady> const& s, SourceReady& ready) {
    if (s.ready) {
      ready = *s.ready;
      return true;
    }
    std::lock_guard const lock(mutex_);
    auto node = recorded_.extract(s.request);
    if (!node) return false;
    ready = std::move(node.mapped());
    return true;
  }

  T& transceiver_;
  AgentOptions const options_;
  mutable std::shared_mutex door_{};
  std::atomic<bool> shut_{false};
  mutable std::mutex mutex_{};
  std::vector<LocalSpan> regions_{};
  std::map<std::string, Remote> remotes_{};
  std::map<RequestId, std::weak_ptr<AgentReceive>> receives_{};
  std::map<RequestId, SourceReady> recorded_{};
};

}  // namespace b10
