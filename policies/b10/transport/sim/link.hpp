#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <b10/transport/sim/network.hpp>

namespace b10::transport::sim {

/// One end of a simulated link; see b10::Transport for the contract. While it lives, what has
/// matched its receives may write their buffers; once it is destroyed, nothing does.
class Link {
 public:
  Link(std::shared_ptr<Network> network, Node& node, Node* remote)
      : network_(std::move(network)), end_(network_->make_end(node, remote)) {}
  Link(Link&&) = default;
  Link& operator=(Link&& other) noexcept {
    std::swap(network_, other.network_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~Link() {
    if (end_) network_->destroy(*end_);
  }

  [[nodiscard]] End& end() noexcept { return *end_; }
  [[nodiscard]] LinkId id() const noexcept { return end_->id; }

  bool control(std::span<std::byte const> frame) noexcept {
    return network_->control(*end_, frame);
  }
  void send(Tag tag, std::byte const* data, std::uint64_t bytes, Operation& op) noexcept {
    network_->send(*end_, tag, data, bytes, op);
  }
  void receive(Tag tag, std::byte* buffer, std::uint64_t bytes, Operation& op) noexcept {
    network_->receive(*end_, tag, buffer, bytes, op);
  }
  void cancel(Operation& op) noexcept { network_->cancel(*end_, op); }
  void bye() noexcept { network_->bye(*end_); }
  void retire() noexcept { network_->retire(*end_); }
  unsigned sink_unexpected() noexcept { return network_->sink_unexpected(*end_); }

 private:
  std::shared_ptr<Network> network_;
  std::unique_ptr<End> end_;
};

}  // namespace b10::transport::sim
