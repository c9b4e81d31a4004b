#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <b10/transport/loopback.hpp>

namespace support {

/// Keeps a message from its receiver and puts another one in its place, as a faulty or foreign peer
/// would. Whoever sends it writes under the tag that the receiver waits on: the filter tells it.
class Forger {
 public:
  using Network = b10::transport::Loopback::Network;
  using Passing = b10::transport::loopback::Passing;

  /// Intercepts every message that `picks` picks, and keeps the latest.
  Forger(std::shared_ptr<Network> network, std::function<bool(Passing const&)> picks)
      : network_(std::move(network)) {
    network_->set_filter([this, picks = std::move(picks)](Passing const& p) {
      if (!picks(p)) return b10::transport::loopback::Fate::deliver;
      tag = p.tag;
      message.assign(p.bytes.begin(), p.bytes.end());
      return b10::transport::loopback::Fate::drop;
    });
  }
  Forger(Forger const&) = delete;
  Forger& operator=(Forger const&) = delete;
  ~Forger() { stop(); }

  /// From now on everything passes.
  void stop() { network_->set_filter({}); }
  /// Delivers the message, as the test has changed it, to whoever waits for its tag; nothing is
  /// intercepted any more.
  void deliver(char const* to = "b") {
    stop();
    network_->inject(to, tag, message);
  }

  b10::Tag tag{};
  std::vector<std::byte> message{};

 private:
  std::shared_ptr<Network> network_;
};

}  // namespace support
