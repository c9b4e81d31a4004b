#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/transport.hpp>
#include <b10/transport/loopback/link.hpp>
#include <b10/transport/loopback/network.hpp>

namespace b10::transport {

/// Carries bytes between transceivers of one process. Use it for tests, examples and engines whose
/// prefill and decode share a process; it copies once, under one mutex. Short messages (below
/// eager_bytes) are copied at once, long ones when they are matched. Faults can be injected through
/// the network.
class Loopback {
 public:
  static constexpr std::string_view name = "transport::Loopback";
  static constexpr std::size_t control_bytes_max = loopback::control_bytes_max;
  using Network = loopback::Network;
  using Link = loopback::Link;

  struct Options {
    std::shared_ptr<Network> network{};  ///< shared by all nodes that can meet; required
    std::string address{};               ///< unique in the network; required
  };

  Loopback(Options options, Hello const& local)
      : network_(std::move(options.network)),
        node_(std::make_shared<loopback::Node>()),
        local_(local) {
    if (!network_ || options.address.empty())
      throw Error(Reason::invalid_request, "Loopback::Options::network and ::address must be set");
    node_->address = local_.listen = options.address;
    local_.transport = "loopback";
    std::lock_guard lock(network_->mutex);
    if (!network_->nodes.emplace(options.address, node_).second)
      throw Error(Reason::invalid_request, "address \"" + options.address + "\" is in use");
  }
  Loopback(Loopback const&) = delete;
  Loopback& operator=(Loopback const&) = delete;
  ~Loopback() {
    std::lock_guard lock(network_->mutex);
    network_->nodes.erase(node_->address);
  }

  [[nodiscard]] std::string address() const { return node_->address; }
  [[nodiscard]] Instant now() const noexcept { return network_->now(); }

  void connect(ConnectId id, std::string_view address, Instant deadline) {
    std::lock_guard lock(network_->mutex);
    connecting_.push_back({id, deadline, std::string(address)});
    auto it = network_->nodes.find(std::string(address));
    if (it == network_->nodes.end() || it->second == node_) return;  // fails at the next progress
    connecting_.back().asked = true;
    send(*it->second, {loopback::Greeting::Step::request, node_, id, local_, {}, nullptr, {}});
  }

  template <class Handler>
  unsigned progress(Handler& handler) {
    unsigned events = greet(handler) + expire(handler);
    {
      std::lock_guard lock(network_->mutex);
      node_->rung = false;
    }
    // One at a time, told without the mutex: a handler may post, connect, and destroy any link, and
    // nothing that was taken out before may then still be told.
    for (; tell_one(handler); ++events) {
    }
    return events;
  }

  void wait(Instant until) {
    if (network_->manual()) return;
    std::unique_lock lock(network_->mutex);
    auto const limit = std::chrono::nanoseconds(std::max<std::int64_t>(0, (until - now()).ns));
    node_->changed.wait_for(lock, limit, [&] { return node_->rung; });
  }
  void wake() noexcept {
    std::lock_guard lock(network_->mutex);
    network_->ring(*node_);
  }
  [[nodiscard]] std::string explain() const {
    return "loopback within the process, at " + node_->address + "\n";
  }

 private:
  struct Attempt {
    ConnectId id;
    Instant deadline;
    std::string address;
    bool asked = false;
  };
  using Greeting = loopback::Greeting;

  template <class Handler>
  bool tell_one(Handler& handler) {
    std::unique_lock lock(network_->mutex);
    for (loopback::End* e : node_->ends) {
      if (!e->completions.empty()) {
        auto const c = e->completions.front();
        e->completions.pop_front();
        lock.unlock();
        c.operation->complete(c.status, c.bytes, c.tag);
        return true;
      }
      if (!e->controls.empty()) {
        auto const frame = std::move(e->controls.front());
        e->controls.pop_front();
        LinkId const id = e->id;
        lock.unlock();
        handler.on_control(id, frame);
        return true;
      }
      if (e->down && !e->retired) {
        e->retired = true;
        LinkId const id = e->id;
        LinkDown const how = *e->down;
        lock.unlock();
        handler.on_link_down(id, how, "");
        return true;
      }
    }
    return false;
  }

  static void send(loopback::Node& to, Greeting g) {
    to.greetings.push_back(std::move(g));
    Network::ring(to);
  }
  void send_locked(std::weak_ptr<loopback::Node> const& to, Greeting g) {
    std::lock_guard lock(network_->mutex);
    if (auto n = to.lock()) send(*n, std::move(g));
  }

  template <class Handler>
  unsigned greet(Handler& handler) {
    std::deque<Greeting> batch;
    {
      std::lock_guard lock(network_->mutex);
      batch.swap(node_->greetings);
    }
    for (Greeting& g : batch) answer(handler, g);
    return static_cast<unsigned>(batch.size());
  }

  template <class Handler>
  void answer(Handler& handler, Greeting& g) {
    PairDomain const domain = loopback::domain(local_.incarnation, g.hello.incarnation);
    if (g.step == Greeting::Step::refuse) return fail(handler, g.connect, g.why);
    std::string why = incompatibility(local_, g.hello);
    if (why.empty()) why = handler.refuse(g.hello, g.hello.listen);
    if (!why.empty()) {
      send_locked(g.from, {Greeting::Step::refuse, node_, g.connect, local_, {}, nullptr, why});
      if (g.step == Greeting::Step::offer) fail(handler, g.connect, why);
      return;
    }
    Generation const mine = handler.last_generation(g.hello, domain);
    if (g.step == Greeting::Step::request) {
      send_locked(g.from, {Greeting::Step::offer, node_, g.connect, local_, mine, nullptr, {}});
    } else if (g.step == Greeting::Step::offer) {
      if (!forget(g.connect)) return;  // expired meanwhile
      Generation const agreed = next(mine, g.generation, g.hello.incarnation);
      loopback::Link link(network_, node_);
      send_locked(g.from,
                  {Greeting::Step::accept, node_, g.connect, local_, agreed, link.end(), {}});
      handler.on_link(std::move(link), LinkInfo{g.hello, domain, agreed, true}, g.connect);
    } else {
      loopback::Link link(network_, node_);
      link.join(g.end);
      handler.on_link(std::move(link), LinkInfo{g.hello, domain, g.generation, false}, ConnectId{});
    }
  }

  /// Above both sides' last and above every offer made before; the two nodes of a pair give out odd
  /// and even numbers, so that connecting to each other at once cannot make one number twice.
  Generation next(Generation mine, Generation theirs, Incarnation const& remote) {
    auto& last = given_[remote.high ^ remote.low];
    auto n = std::max({to_integer(mine), to_integer(theirs), last}) + 1;
    bool const lower = std::pair(local_.incarnation.high, local_.incarnation.low) <
                       std::pair(remote.high, remote.low);
    if (n % 2 != (lower ? 1u : 0u)) ++n;
    return Generation{last = n};
  }

  template <class Handler>
  void fail(Handler& handler, ConnectId id, std::string const& why) {
    if (forget(id)) handler.on_connect_failed(id, why);
  }
  bool forget(ConnectId id) {
    std::lock_guard lock(network_->mutex);
    return std::erase_if(connecting_, [&](Attempt const& a) { return a.id == id; }) > 0;
  }
  template <class Handler>
  unsigned expire(Handler& handler) {
    std::vector<Attempt> over;
    {
      std::lock_guard lock(network_->mutex);
      for (Attempt const& a : connecting_)
        if (!a.asked || a.deadline <= now()) over.push_back(a);
      std::erase_if(connecting_, [&](Attempt const& a) { return !a.asked || a.deadline <= now(); });
    }
    for (Attempt const& a : over)
      handler.on_connect_failed(a.id, a.asked
                                          ? "no answer from \"" + a.address + "\" by the deadline"
                                          : "nobody else listens at \"" + a.address + "\"");
    return static_cast<unsigned>(over.size());
  }

  std::shared_ptr<Network> network_;
  std::shared_ptr<loopback::Node> node_;
  Hello local_;
  std::vector<Attempt> connecting_;
  std::unordered_map<std::uint64_t, std::uint32_t> given_;
};
static_assert(Transport<Loopback>, "transport::Loopback must model b10::Transport");

}  // namespace b10::transport
