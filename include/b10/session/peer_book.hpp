#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/native_plane.hpp>
#include <b10/outcome.hpp>
#include <b10/session/messages.hpp>
#include <b10/session/peer_map.hpp>

namespace b10::session {

/// Who is registered, and the messages that a full queue has sent back. Any thread.
template <NativePlane P>
class PeerBook {
 public:
  /// Messages that wait here for room in a route's queue, at most; more are dropped, and the
  /// sessions they belong to end by their own deadlines.
  static constexpr std::size_t waiting_max = 65'536;
  /// Peers that are known at once; each costs a route. More are refused.
  static constexpr std::size_t peers_max = 4096;

  PeerBook(P& plane, NodeId own, NodeShape const& shape)
      : plane_(plane), own_(own), shape_(shape) {}

  /// Says who we are and asks for an answer.
  void greet(std::string const& address, std::vector<std::byte> agent_descriptor) {
    introduce(route_to(address), std::move(agent_descriptor), true);
  }
  /// A peer has said who it is. Registers it, or sends a refusal that names both values. Returns
  /// the node whose place it has taken: an earlier run of the same name.
  template <class Descriptor>
  std::optional<NodeId> meet(NodeId from, RegisterPeer const& hello,
                             Descriptor&& agent_descriptor) {
    PlaneRoute route{};
    try {
      route = route_to(hello.plane_address);
    } catch (Error const& e) {
      refused(e.what());
      return std::nullopt;
    }
    auto why =
        from == own_ ? std::string("this node itself") : incompatibility(shape_, hello.shape);
    if (why.empty() && hello.shape.name.empty()) why = "the peer has no name";
    if (why.empty() && is_full_for(hello.shape.name))
      why = std::to_string(peers_max) + " peers are known already (PeerBook::peers_max)";
    if (!why.empty()) {
      send(route, encode(own_, RefusePeer{why}));
      refused("refused \"" + hello.shape.name + "\": " + why);
      forget_later(route);
      return std::nullopt;
    }
    auto peer = std::make_shared<PeerInfo>(PeerInfo{
        from, route, hello.shape, hello.agent_descriptor, link_groups(shape_, hello.shape)});
    std::optional<NodeId> replaced;
    std::optional<PlaneRoute> left;
    {
      std::lock_guard const lock(mutex_);
      auto& slot = by_name_[hello.shape.name];
      if (slot && slot->id != from) {
        replaced = slot->id;
        if (slot->route != route) left = slot->route;
        by_id_.erase(slot->id);
      }
      if (!slot || slot->id != from || slot->shape != hello.shape) {
        slot = peer;
        by_id_[from] = peer;
      }
    }
    if (left && !is_in_use(*left)) close(*left);
    if (hello.answer_wanted) introduce(route, agent_descriptor(), false);
    return replaced;
  }
  void refused(std::string why) {
    std::lock_guard const lock(mutex_);
    refusal_ = std::move(why);
  }
  [[nodiscard]] std::string refusal() const {
    std::lock_guard const lock(mutex_);
    return refusal_;
  }
  [[nodiscard]] std::shared_ptr<PeerInfo const> find(std::string const& name) const {
    std::lock_guard const lock(mutex_);
    auto const it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }
  [[nodiscard]] std::shared_ptr<PeerInfo const> find(NodeId id) const {
    std::lock_guard const lock(mutex_);
    auto const it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : it->second;
  }

  [[nodiscard]] std::size_t peers() const {
    std::lock_guard const lock(mutex_);
    return by_name_.size();
  }
  /// Open ones: to peers, to who was greeted, to the last few that were refused.
  [[nodiscard]] std::size_t routes() const {
    std::lock_guard const lock(mutex_);
    return routes_.size();
  }

  /// In order per route; never blocks. To a route that is closed: dropped.
  void send(PlaneRoute route, std::vector<std::byte> message) {
    std::lock_guard const lock(sending_);
    auto const it = waiting_.find(route);
    if (it == waiting_.end()) return;
    auto& waiting = it->second;
    if (waiting.empty() && plane_.send(route, message)) return;
    if (waiting.size() < waiting_max) waiting.push_back(std::move(message));
  }
  /// Tries again what had to wait.
  void flush() {
    std::lock_guard const lock(sending_);
    for (auto& [route, waiting] : waiting_)
      while (!waiting.empty() && plane_.send(route, waiting.front())) waiting.pop_front();
  }

 private:
  [[nodiscard]] PlaneRoute route_to(std::string const& address) {
    std::lock_guard const lock(mutex_);
    if (auto const it = routes_.find(address); it != routes_.end()) return it->second;
    auto const route = routes_.emplace(address, plane_.open(address)).first->second;
    std::lock_guard const sending(sending_);
    waiting_.try_emplace(route);
    return route;
  }
  [[nodiscard]] bool is_full_for(std::string const& name) const {
    std::lock_guard const lock(mutex_);
    return by_name_.size() >= peers_max && by_name_.count(name) == 0;
  }
  [[nodiscard]] bool is_in_use(PlaneRoute route) const {
    std::lock_guard const lock(mutex_);
    for (auto const& [name, peer] : by_name_)
      if (peer->route == route) return true;
    return false;
  }
  void close(PlaneRoute route) {
    std::lock_guard const lock(mutex_);
    std::erase_if(routes_, [&](auto const& item) { return item.second == route; });
    std::lock_guard const sending(sending_);
    waiting_.erase(route);
    plane_.close(route);
  }
  /// A refusal needs time to leave, but strangers must not make this node hold routes without end.
  void forget_later(PlaneRoute route) {
    if (is_in_use(route)) return;
    std::erase(refused_, route);
    refused_.push_back(route);
    if (refused_.size() <= refused_max) return;
    auto const oldest = refused_.front();
    refused_.pop_front();
    if (!is_in_use(oldest)) close(oldest);
  }
  void introduce(PlaneRoute route, std::vector<std::byte> agent_descriptor, bool answer_wanted) {
    send(route, encode(own_, RegisterPeer{answer_wanted, plane_.address(),
                                          std::move(agent_descriptor), shape_}));
  }

  static constexpr std::size_t refused_max = 16;

  P& plane_;
  NodeId const own_;
  NodeShape const& shape_;
  mutable std::mutex mutex_{};  // guards what follows
  std::map<std::string, PlaneRoute> routes_{};
  std::map<std::string, std::shared_ptr<PeerInfo const>> by_name_{};
  std::map<NodeId, std::shared_ptr<PeerInfo const>> by_id_{};
  std::string refusal_{};
  std::deque<PlaneRoute> refused_{};  // of the thread that meets peers
  std::mutex sending_{};              // guards what follows
  std::map<PlaneRoute, std::deque<std::vector<std::byte>>> waiting_{};
};

}  // namespace b10::session
