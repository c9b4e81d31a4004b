#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <b10/transport/loopback/network.hpp>

namespace b10::transport::loopback {

inline constexpr std::size_t control_bytes_max = 4000;
inline constexpr std::uint64_t eager_bytes =
    8000;  ///< as transport::Ucx: below it a message is copied at once

/// The same for both sides; the two incarnations are random, so a hash of them does not recur.
[[nodiscard]] constexpr PairDomain domain(Incarnation const& a, Incarnation const& b) noexcept {
  auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return PairDomain{mix(a.high + mix(a.low)) ^ mix(b.high + mix(b.low))};
}

/// One end of a loopback link; see b10::Transport for the contract.
class Link {
 public:
  Link(std::shared_ptr<Network> network, std::shared_ptr<Node> node)
      : network_(std::move(network)), node_(std::move(node)), end_(std::make_unique<End>()) {
    std::lock_guard lock(network_->mutex);
    end_->id = network_->next_link();
    end_->node = node_.get();
    node_->ends.push_back(end_.get());
  }
  Link(Link&&) = default;
  Link& operator=(Link&& other) noexcept {
    std::swap(network_, other.network_);
    std::swap(node_, other.node_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~Link() {
    if (!end_) return;
    std::lock_guard lock(network_->mutex);
    Network::unlink(*end_, LinkDown::lost);
    std::erase(node_->ends, end_.get());
  }

  [[nodiscard]] End* end() noexcept { return end_.get(); }
  /// Ties this end to the connector's.
  void join(End* other) {
    std::lock_guard lock(network_->mutex);
    if (!network_->alive(other)) {
      end_->down = LinkDown::lost;
      return;
    }
    end_->peer = other;
    other->peer = end_.get();
    // What the connector has sent before this end existed.
    for (auto& m : std::exchange(other->early, {})) Network::deliver(*end_, std::move(m));
    for (auto& c : std::exchange(other->early_controls, {})) end_->controls.push_back(std::move(c));
    Network::ring(*node_);
  }

  [[nodiscard]] LinkId id() const noexcept { return end_->id; }

  bool control(std::span<std::byte const> frame) noexcept {
    std::lock_guard lock(network_->mutex);
    if (end_->retired || end_->down || frame.size() > control_bytes_max) return false;
    if (network_->fate({node_->address, true, Tag{}, frame}) == Fate::drop) return true;
    std::vector<std::byte> copy(frame.begin(), frame.end());
    if (End* p = end_->peer) {
      p->controls.push_back(std::move(copy));
      Network::ring(*p->node);
    } else {
      end_->early_controls.push_back(std::move(copy));
    }
    return true;
  }

  void send(Tag tag, std::byte const* data, std::uint64_t bytes, Operation& op) noexcept {
    op.start(tag);
    std::lock_guard lock(network_->mutex);
    if (end_->retired || end_->down)
      return op.complete(OperationStatus::failed, 0, tag, "link is down");
    Fate const fate = network_->fate({node_->address, false, tag, {data, bytes}});
    if (fate == Fate::drop) return op.complete(OperationStatus::ok, bytes, tag);
    Message m;
    m.tag = tag;
    m.bytes = bytes;
    m.from = end_.get();
    m.stalled = fate == Fate::stall;
    // A stalled message has left its sender: it carries its bytes.
    bool const eager = bytes < eager_bytes || m.stalled || !end_->peer;
    if (eager)
      m.copy.assign(data, data + bytes);
    else
      m.data = data, m.send = &op;
    if (End* p = end_->peer) {
      Network::deliver(*p, std::move(m));
      Network::ring(*p->node);
    } else {
      end_->early.push_back(std::move(m));
    }
    if (eager) op.complete(OperationStatus::ok, bytes, tag);
  }

  void receive(Tag tag, std::byte* buffer, std::uint64_t bytes, Operation& op) noexcept {
    op.start(tag);
    std::lock_guard lock(network_->mutex);
    if (end_->retired) return op.complete(OperationStatus::failed, 0, tag, "link is retired");
    PostedReceive const r{tag, buffer, bytes, &op};
    auto const it = std::find_if(end_->unexpected.begin(), end_->unexpected.end(),
                                 [&](Message const& m) { return m.tag == tag; });
    if (it == end_->unexpected.end()) {
      end_->posted.push_back(r);
      return;
    }
    Network::meet(*end_, std::move(*it), r);
    end_->unexpected.erase(it);
    Network::ring(*node_);
  }

  /// Only a receive that has not matched ends, as in UCX.
  void cancel(Operation& op) noexcept {
    {
      std::lock_guard lock(network_->mutex);
      if (std::erase_if(end_->posted, [&](PostedReceive const& r) { return r.operation == &op; }) ==
          0)
        return;
    }
    op.complete(OperationStatus::cancelled, 0, op.tag());
  }
  void bye() noexcept {
    std::lock_guard lock(network_->mutex);
    Network::unlink(*end_, LinkDown::bye);
    end_->down = end_->down ? end_->down : LinkDown::bye;
    Network::ring(*node_);
  }
  void retire() noexcept {
    std::lock_guard lock(network_->mutex);
    end_->retired = true;
    Network::unlink(*end_, LinkDown::lost);
  }
  /// Throws away messages that no receive has wanted; their senders are done with them. Returns how
  /// many.
  unsigned sink_unexpected() noexcept {
    std::lock_guard lock(network_->mutex);
    auto const n = static_cast<unsigned>(end_->unexpected.size());
    for (Message const& m : end_->unexpected) Network::complete(*end_, m, std::nullopt);
    end_->unexpected.clear();
    return n;
  }

 private:
  std::shared_ptr<Network> network_;
  std::shared_ptr<Node> node_;
  std::unique_ptr<End> end_;
};

}  // namespace b10::transport::loopback
