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
    if (!why.empty()) {
      send(route, encode(own_, RefusePeer{why}));
      refused("refused \"" + hello.shape.name + "\": " + why);
      return std::nullopt;
    }
    auto peer = std::make_shared<PeerInfo>(PeerInfo{
        from, route, hello.shape, hello.agent_descriptor, link_groups(shape_, hello.shape)});
    std::optional<NodeId> replaced;
    {
      std::lock_guard const lock(mutex_);
      auto& slot = by_name_[hello.shape.name];
      if (slot && slot->id != from) {
        replaced = slot->id;
        by_id_.erase(slot->id);
      }
      if (!slot || slot->id != from || slot->shape != hello.shape) {
        slot = peer;
        by_id_[from] = peer;
      }
    }
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

  /// In order per route; never blocks.
  void send(PlaneRoute route, std::vector<std::byte> message) {
    std::lock_guard const lock(sending_);
    auto& waiting = waiting_[route];
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
    return routes_.emplace(address, plane_.open(address)).first->second;
  }
  void introduce(PlaneRoute route, std::vector<std::byte> agent_descriptor, bool answer_wanted) {
    send(route, encode(own_, RegisterPeer{answer_wanted, plane_.address(),
                                          std::move(agent_descriptor), shape_}));
  }

  P& plane_;
  NodeId const own_;
  NodeShape const& shape_;
  mutable std::mutex mutex_{};  // guards what follows
  std::map<std::string, PlaneRoute> routes_{};
  std::map<std::string, std::shared_ptr<PeerInfo const>> by_name_{};
  std::map<NodeId, std::shared_ptr<PeerInfo const>> by_id_{};
  std::string refusal_{};
  std::mutex sending_{};  // guards what follows
  std::map<PlaneRoute, std::deque<std::vector<std::byte>>> waiting_{};
};

}  // namespace b10::session
