#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/transport/sim/traffic.hpp>

namespace b10::transport::sim {

/// A simulated network between any number of nodes of one thread: what transport::Sim nodes share,
/// and where faults are injected. It is a function of its seed and of what is called in what order:
/// two runs that do the same have the same journal. Nodes must be in manual progress, and turned by
/// the thread that moves the time. A node that is stopped must not be turned.
class Network final : public Traffic {
 public:
  using Options = NetworkOptions;
  explicit Network(Options const& options = {}) : Traffic(options) {}

  [[nodiscard]] Instant now() const noexcept { return timeline->now(); }
  /// Lets time pass, and happen what is due.
  unsigned advance(Duration d) { return timeline->advance(d); }

  // --- Faults of nodes. Each takes the address; one that is not there is left alone. ---

  /// SIGSTOP: what it was sending freezes in the middle; what is sent to it waits. Its peers think
  /// it dead after Options::silence.
  void stop_peer(std::string_view address) {
    Node* n = find(address);
    if (!n || n->stopped) return;
    n->stopped = true;
    ++n->stops;
    note(What::stopped, n->id);
    for (End* e : n->ends)
      if (e->peer)
        schedule(now() + options_.silence, Due::silence,
                 std::uint64_t{n->stops} << 40 | static_cast<std::uint64_t>(e->id));
  }
  /// SIGCONT: what was frozen goes on landing, whatever has become of its receives.
  void resume_peer(std::string_view address) {
    Node* n = find(address);
    if (!n || !n->stopped) return;
    n->stopped = false;
    note(What::resumed, n->id);
    thaw(*n);
  }
  /// SIGKILL: nothing leaves it any more, not even a goodbye when its transceiver is destroyed.
  /// What it was sending eagerly stays half received for ever. Another node can take its address at
  /// once.
  void kill_peer(std::string_view address) {
    Node* n = find(address);
    if (!n) return;
    note(What::killed, n->id);
    n->alive = false;
    n->stopped = false;
    n->inbox.clear();
    n->told = 0;
    for (End* e : n->ends) {
      leave(*e, LinkDown::lost, false);
      e->down_told = false;  // if it was about to be
      forget_early(*e);
      forget_sender(*e, true);
      forget_receiver(*e);
    }
  }
  /// All links of the node break; both ends are told.
  void cut(std::string_view address) {
    Node* n = find(address);
    if (!n) return;
    note(What::cut, n->id);
    for (End* e : n->ends) {
      if (e->peer) tell_down(*e->peer, LinkDown::lost, now() + latency());
      tell_down(*e, LinkDown::lost, now() + latency());
    }
  }
  /// The node's monotonic clock jumps ahead, as after a suspend. Nodes' clocks may be days apart.
  void jump_clock(std::string_view address, Duration ahead) {
    Node* n = find(address);
    if (!n || ahead < Duration{}) return;
    n->clock_ahead = n->clock_ahead + ahead;
    note(What::clock_jumped, n->id, NodeId::none, std::nullopt,
         static_cast<std::uint64_t>(ahead.ns));
  }
  /// The next so many steps of connecting that this node sends are lost.
  void lose_greetings(std::string_view address, std::uint32_t times) {
    if (Node* n = find(address)) n->greetings_lost = times;
  }

  [[nodiscard]] bool stopped(std::string_view address) const {
    Node const* n = find(address);
    return n && n->stopped;
  }
  [[nodiscard]] bool stopped(NodeId id) const noexcept {
    auto const i = to_integer(id);
    return i < nodes_.size() && nodes_[i]->stopped;
  }
  [[nodiscard]] bool alive(std::string_view address) const { return find(address) != nullptr; }
  /// Something has come that the node's next turn will be told.
  [[nodiscard]] bool has_news(NodeId id) const noexcept {
    auto const i = to_integer(id);
    return i < nodes_.size() && nodes_[i]->told < nodes_[i]->inbox.size();
  }
  /// The same of any node that is not stopped.
  [[nodiscard]] bool any_news() const noexcept {
    for (auto const& n : nodes_)
      if (n->alive && !n->stopped && has_news(n->id)) return true;
    return false;
  }
  [[nodiscard]] NodeId next_node() const noexcept {
    return NodeId{static_cast<std::uint16_t>(nodes_.size())};
  }

  // --- For Sim and Link ---

  [[nodiscard]] Incarnation draw_incarnation() noexcept {
    auto const high = random().next();
    return {high, random().next()};
  }
  /// Null if the address is in use.
  Node* add_node(std::string const& address) {
    if (find(address)) return nullptr;
    nodes_.push_back(std::make_unique<Node>());
    Node& n = *nodes_.back();
    n.id = NodeId{static_cast<std::uint16_t>(nodes_.size() - 1)};
    n.address = address;
    return &n;
  }
  void remove_node(Node& n) noexcept { n.alive = false; }
  [[nodiscard]] Node* find(std::string_view address) const {
    for (auto const& n : nodes_)
      if (n->alive && n->address == address) return n.get();
    return nullptr;
  }

  std::unique_ptr<End> make_end(Node& node, Node* remote) {
    auto e = std::make_unique<End>();
    ends_.push_back(e.get());
    e->id = LinkId{ends_.size()};
    e->node = &node;
    e->remote = remote;
    e->broken = !node.alive;
    node.ends.push_back(e.get());
    return e;
  }
  /// Ties the end of the side that was connected to, to its connector's.
  void join_to(End& e, LinkId other) {
    End* const peer = end_of(other);
    if (!peer || !peer->node->alive) return tell_down(e, LinkDown::lost, now());
    join(e, *peer);
    join(*peer, e);
    if (peer->broken || peer->retired) tell_down(e, LinkDown::lost, now() + latency());
  }
  void bye(End& e) {
    e.down_coming = true;
    push_down(e, LinkDown::bye);
    leave(e, LinkDown::bye, false);
  }
  void retire(End& e) {
    leave(e, LinkDown::lost, true);
    end_sends(e, OperationStatus::cancelled, "link retired");
    give_up_receives(e);
  }
  void destroy(End& e) {
    leave(e, LinkDown::lost, true);
    forget_early(e);
    forget_sender(e, false);
    forget_receiver(e);
    if (e.peer) e.peer->peer = nullptr;
    ends_[static_cast<std::size_t>(e.id) - 1] = nullptr;
    std::erase(e.node->ends, &e);
    for (Item& item : e.node->inbox) {
      if (item.end != &e) continue;
      if (item.type == Item::Type::control) free_frame(item.index);
      item = {};
    }
  }

  void greet(Greeting&& g) {
    auto const index = take(greetings_, free_greetings_);
    bool const lost = !g.from->alive || g.from->greetings_lost > 0;
    note(What::connect_posted, g.from->id, g.to->id, std::nullopt,
         static_cast<std::uint64_t>(g.step));
    if (g.from->greetings_lost > 0) --g.from->greetings_lost;
    greetings_[index] = std::move(g);
    if (lost) return free_greetings_.push_back(index);
    schedule(now() + latency(), Due::greeting, index, greetings_flow);
  }
  [[nodiscard]] Greeting take_greeting(std::uint32_t index) {
    free_greetings_.push_back(index);
    return std::move(greetings_[index]);
  }
  /// So that a loop which steps from event to event stops there.
  void mark(Instant when) { schedule(when, Due::nothing, 0); }
  [[nodiscard]] Frame& frame(std::uint32_t index) noexcept { return frames_[index]; }
  void free_frame(std::uint32_t index) { free_frames_.push_back(index); }
  void note_link(What what, Node const& n, End const& e, Generation generation = {}) {
    note(what, n.id, e.remote ? e.remote->id : NodeId::none, std::nullopt, to_integer(generation));
  }

 private:
  void on_time(std::uint32_t what, std::uint64_t which) override {
    auto const index = static_cast<std::uint32_t>(which);
    switch (static_cast<Due>(what)) {
      case Due::message:
        return message_arrives(index);
      case Due::piece:
        return piece_lands(index);
      case Due::frame:
        return frame_arrives(index);
      case Due::down:
        if (End* e = end_of(LinkId{which >> 8})) down(*e, static_cast<LinkDown>(which & 0xff));
        return;
      case Due::greeting:
        return greeting_arrives(index);
      case Due::silence:
        return silence(LinkId{which & ((std::uint64_t{1} << 40) - 1)},
                       static_cast<std::uint32_t>(which >> 40));
      case Due::nothing:
        return;
    }
  }

  [[nodiscard]] End* end_of(LinkId id) const noexcept {
    auto const i = static_cast<std::size_t>(id) - 1;
    return i < ends_.size() ? ends_[i] : nullptr;
  }
  /// The end takes no more posts; its peer is told, after what was sent.
  void leave(End& e, LinkDown how, bool retired) {
    e.broken = true;
    e.retired = e.retired || retired;
    if (e.peer_told || !e.peer) return;
    e.peer_told = true;
    tell_down(*e.peer, how, how == LinkDown::bye ? after_all_of(e) : now() + latency());
  }
  void tell_down(End& e, LinkDown how, Instant when) {
    if (e.down_coming) return;
    e.down_coming = true;
    schedule(when, Due::down, static_cast<std::uint64_t>(e.id) << 8 | static_cast<unsigned>(how));
  }
  void down(End& e, LinkDown how) {
    if (!e.node->alive) return;
    e.broken = true;
    end_sends(e, OperationStatus::failed, "the peer is gone");
    end_orphans(e);
    push_down(e, how);
  }
  static void push_down(End& e, LinkDown how) {
    if (std::exchange(e.down_told, true)) return;
    Item item{Item::Type::down, {}, how};
    item.end = &e;
    e.node->inbox.push_back(item);
  }
  void silence(LinkId id, std::uint32_t stops) {
    End* const e = end_of(id);
    if (!e || !e->node->stopped || e->node->stops != stops || !e->peer) return;
    tell_down(*e->peer, LinkDown::silent, now());
  }
  void frame_arrives(std::uint32_t index) {
    Frame const& f = frames_[index];
    End* const e = end_of(f.to);
    if (!e || !e->node->alive) return free_frame(index);
    note(What::arrived, e->node->id, f.from_node, f.name, f.bytes.size());
    Item item{Item::Type::control};
    item.end = e;
    item.index = index;
    e->node->inbox.push_back(item);
  }
  void greeting_arrives(std::uint32_t index) {
    Node& to = *greetings_[index].to;
    if (!to.alive) return free_greetings_.push_back(index);
    Item item{Item::Type::greeting};
    item.index = index;
    to.inbox.push_back(item);
  }

  static constexpr std::uint64_t greetings_flow = 1;  // those of links begin at 2

  std::vector<std::unique_ptr<Node>> nodes_{};
  std::vector<End*> ends_{};  ///< by id
  std::deque<Greeting> greetings_{};
  std::vector<std::uint32_t> free_greetings_{};
};

}  // namespace b10::transport::sim
