#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/transport.hpp>
#include <b10/transport/sim/link.hpp>
#include <b10/transport/sim/network.hpp>

namespace b10::transport {

/// A seeded network in one process, on one thread, with a clock that moves when it is told to: one
/// seed is one run, event by event. It models what UCX really does rather than a polite network,
/// and takes faults of every kind; see sim::Network. Use it to test what stands on B10, a scheduler
/// for example, against loss, delay, hung and dying peers, in virtual time. Nodes must be in manual
/// progress. What a node is told waits for its progress(); bytes land by themselves, as RDMA does.
class Sim {
 public:
  static constexpr std::string_view name = "transport::Sim";
  static constexpr std::size_t control_bytes_max = sim::control_bytes_max;
  using Network = sim::Network;
  using Link = sim::Link;

  struct Options {
    std::shared_ptr<Network> network{};  ///< shared by all nodes that can meet; required
    std::string address{};               ///< unique among the living nodes of the network; required

    /// What a node calls itself has to follow from the seed too.
    [[nodiscard]] Incarnation draw_incarnation() const {
      return network ? network->draw_incarnation() : Incarnation{};
    }
  };

  /// Throws Error{invalid_request}: no network, no address, or the address of a living node.
  Sim(Options options, Hello const& local) : network_(std::move(options.network)), local_(local) {
    if (!network_ || options.address.empty())
      throw Error(Reason::invalid_request, "Sim::Options::network and ::address must be set");
    local_.listen = options.address;
    local_.transport = "sim";
    node_ = network_->add_node(options.address);
    if (!node_)
      throw Error(Reason::invalid_request, "address \"" + options.address + "\" is in use");
  }
  Sim(Sim const&) = delete;
  Sim& operator=(Sim const&) = delete;
  ~Sim() { network_->remove_node(*node_); }

  [[nodiscard]] std::string address() const { return node_->address; }
  /// The common time, and this node's clock_ahead.
  [[nodiscard]] Instant now() const noexcept { return network_->now() + node_->clock_ahead; }

  void connect(ConnectId id, std::string_view address, Instant deadline) {
    sim::Node* const to = network_->find(address);
    bool const asked = to && to != node_ && node_->alive;
    connecting_.push_back({id, deadline, std::string(address), asked});
    if (!asked) return;  // fails at the next progress
    network_->mark(common(deadline));
    network_->greet({Greeting::Step::request, node_, to, id, local_, {}, {}, {}});
  }

  template <class Handler>
  unsigned progress(Handler& handler) {
    if (node_->stopped) return 0;
    unsigned events = connecting_.empty() ? 0 : expire(handler);
    for (auto& inbox = node_->inbox; node_->told < inbox.size(); ++events)
      tell(handler, sim::Item(inbox[node_->told++]));
    node_->inbox.clear();
    node_->told = 0;
    if (events == 0 && network_->options().clock == sim::Clock::by_progress &&
        !network_->any_news())
      network_->timeline->step();
    return events;
  }

  /// Moves the clock of the whole network to the next event, or to `until` if that is earlier.
  void wait(Instant until) {
    if (woken_.exchange(false, std::memory_order_relaxed)) return;
    if (network_->has_news(node_->id)) return;
    network_->timeline->advance_to(std::min(common(until), network_->timeline->next()));
  }
  /// The only call that another thread may make.
  void wake() noexcept { woken_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] std::string explain() const {
    return "simulated network, seed " + std::to_string(network_->options().seed) + ", at " +
           node_->address + "\n";
  }

 private:
  struct Attempt {
    ConnectId id;
    Instant deadline;
    std::string address;
    bool asked;
  };
  using Greeting = sim::Greeting;

  [[nodiscard]] Instant common(Instant mine) const noexcept {
    return mine + Duration{-node_->clock_ahead.ns};
  }

  template <class Handler>
  void tell(Handler& handler, sim::Item const& item) {
    switch (item.type) {
      case sim::Item::Type::none:
        return;
      case sim::Item::Type::completion:
        return item.operation->complete(item.status, item.bytes, item.tag, item.text);
      case sim::Item::Type::control: {
        // Taken out first: the handler may post, and destroy any link.
        auto bytes = std::move(network_->frame(item.index).bytes);
        handler.on_control(item.end->id, bytes);
        bytes.clear();
        network_->frame(item.index).bytes = std::move(bytes);
        return network_->free_frame(item.index);
      }
      case sim::Item::Type::down:
        if (item.end->retired) return;
        network_->note_link(sim::What::link_down, *node_, *item.end);
        return handler.on_link_down(item.end->id, item.down, "");
      case sim::Item::Type::greeting:
        return answer(handler, network_->take_greeting(item.index));
    }
  }

  template <class Handler>
  void answer(Handler& handler, Greeting g) {
    if (g.step == Greeting::Step::refuse) return fail(handler, g.connect, g.why);
    auto const reply = [&](Greeting::Step step, Generation generation, LinkId end,
                           std::string why) {
      network_->greet({step, node_, g.from, g.connect, local_, generation, end, std::move(why)});
    };
    PairDomain const domain = domain_of(local_.incarnation, g.hello.incarnation);
    std::string why = incompatibility(local_, g.hello);
    if (why.empty()) why = handler.refuse(g.hello, g.hello.listen);
    if (!why.empty()) {
      if (g.step == Greeting::Step::offer) fail(handler, g.connect, why);
      return reply(Greeting::Step::refuse, {}, {}, why);
    }
    Generation const mine = handler.last_generation(g.hello, domain);
    if (g.step == Greeting::Step::request) return reply(Greeting::Step::offer, mine, {}, {});
    if (g.step == Greeting::Step::offer && !forget(g.connect)) return;  // expired meanwhile
    Link link(network_, *node_, g.from);
    bool const initiator = g.step == Greeting::Step::offer;
    Generation const agreed =
        initiator ? next(mine, g.generation, g.hello.incarnation) : g.generation;
    network_->note_link(sim::What::link_up, *node_, link.end(), agreed);
    if (initiator) {
      reply(Greeting::Step::accept, agreed, link.id(), {});
      handler.on_link(std::move(link), LinkInfo{g.hello, domain, agreed, true}, g.connect);
    } else {
      network_->join_to(link.end(), g.end);
      handler.on_link(std::move(link), LinkInfo{g.hello, domain, agreed, false}, ConnectId{});
    }
  }

  /// The same for both sides.
  [[nodiscard]] static PairDomain domain_of(Incarnation const& a, Incarnation const& b) noexcept {
    auto const one = [](Incarnation const& i) {
      return sim::Random::mix(i.high + sim::Random::mix(i.low));
    };
    return PairDomain{one(a) ^ one(b)};
  }
  /// Above both sides' last and above every offer made before; the two nodes of a pair give out odd
  /// and even numbers, so that connecting to each other at once cannot make one number twice.
  [[nodiscard]] Generation next(Generation mine, Generation theirs, Incarnation const& remote) {
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
    return std::erase_if(connecting_, [&](Attempt const& a) { return a.id == id; }) > 0;
  }
  template <class Handler>
  unsigned expire(Handler& handler) {
    std::vector<Attempt> over;
    auto const is_over = [&](Attempt const& a) { return !a.asked || a.deadline <= now(); };
    for (Attempt const& a : connecting_)
      if (is_over(a)) over.push_back(a);
    std::erase_if(connecting_, is_over);
    for (Attempt const& a : over)
      handler.on_connect_failed(a.id, a.asked
                                          ? "no answer from \"" + a.address + "\" by the deadline"
                                          : "nobody else listens at \"" + a.address + "\"");
    return static_cast<unsigned>(over.size());
  }

  std::shared_ptr<Network> network_;
  sim::Node* node_ = nullptr;
  Hello local_;
  std::vector<Attempt> connecting_;
  std::unordered_map<std::uint64_t, std::uint32_t> given_;
  std::atomic<bool> woken_{false};
};
static_assert(Transport<Sim>, "transport::Sim must model b10::Transport");

}  // namespace b10::transport
