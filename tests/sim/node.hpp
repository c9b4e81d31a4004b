#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/copy/fake.hpp>
#include <b10/core/transceiver.hpp>
#include <b10/transport/sim.hpp>

#include "sim/pool.hpp"
#include "sim/setup.hpp"
#include "sim/staging.hpp"

namespace campaign {

using Network = b10::transport::sim::Network;

/// One node of a run, over all its lives: a process that may be stopped, killed and started again
/// at the same address, with its KV pool.
template <class Transceiver>
class Node {
 public:
  Node(std::size_t index, std::shared_ptr<Network> network, Setup const& setup,
       std::shared_ptr<Graveyard> graveyard, std::byte* memory)
      : name("n" + std::to_string(index)),
        index_(index),
        network_(std::move(network)),
        setup_(setup),
        graveyard_(std::move(graveyard)),
        memory_(memory) {}

  void start() {
    ++life;
    ++disturbances;
    pool.reset(memory_);
    id = network_->next_node();
    auto copies = setup_.copies;
    copies.node = id;
    control = std::make_shared<b10::copy::FakeControl>(network_->timeline, copies);
    typename Transceiver::Config c;
    c.name = name;
    c.staging.buffers = setup_.slices;
    c.staging.buffer_bytes = setup_.slice_bytes[index_];
    c.staging.graveyard = graveyard_;
    c.staging.share = setup_.shares[index_];
    c.staging.copies.control = control;
    c.transport.network = network_;
    c.transport.address = name;
    c.progress = b10::Progress::manual;
    c.max_in_flight_ops = setup_.in_flight;
    c.quarantine_bytes_max = setup_.quarantine_bytes_max;
    c.receive_limit = b10::milliseconds(60);
    c.connect_limit = b10::milliseconds(5);
    transceiver.emplace(c);
    transceiver->register_memory({pool.memory(), pool_bytes});
    for (auto& p : peers_) p.reset();
    dirty = true;
  }
  /// SIGKILL. Its memory and what it was copying are gone.
  void kill() {
    network_->kill_peer(name);
    control->end();
    transceiver.reset();
    connecting_.clear();
  }
  /// SIGSTOP and SIGCONT.
  void stop() {
    network_->stop_peer(name);
    if (setup_.cpu_copies) control->freeze();
  }
  void resume() {
    network_->resume_peer(name);
    if (alive()) control->thaw();
    dirty = true;
  }
  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] bool alive() const { return transceiver.has_value(); }
  [[nodiscard]] bool runs() const { return alive() && !network_->stopped(id); }
  [[nodiscard]] b10::Instant now() const { return network_->now() + clock_ahead; }

  void connect(Node& other) {
    connecting_.push_back(transceiver->begin_connect(other.name, b10::milliseconds(5)));
    dirty = true;
  }
  /// Its handle of the other, once they have met.
  [[nodiscard]] std::optional<b10::PeerId> peer(Node const& other) {
    auto& p = peers_[other.index_];
    if (!p) p = transceiver->peer(other.name);
    return p;
  }
  /// Turns it until it has nothing more to do now.
  void turn() {
    unsigned work = 1;
    for (int i = 0; i < 4 && work > 0; ++i) work = transceiver->progress();
    dirty = work > 0;
  }
  [[nodiscard]] bool wants_turn() const { return dirty || network_->has_news(id); }

  std::string const name;
  b10::sim::NodeId id{};
  std::uint32_t life = 0;
  std::uint32_t disturbances = 0;  ///< stops, clock jumps and restarts so far
  bool dirty = false;
  bool sick = false;  ///< some fault has hit it or its messages
  b10::Duration clock_ahead{};
  Pool pool{};
  std::shared_ptr<b10::copy::FakeControl> control{};
  std::optional<Transceiver> transceiver{};

 private:
  std::size_t index_;
  std::shared_ptr<Network> network_;
  Setup const& setup_;
  std::shared_ptr<Graveyard> graveyard_;
  std::byte* memory_;
  std::optional<b10::PeerId> peers_[Memory::nodes_max]{};
  std::vector<typename Transceiver::Connecting> connecting_{};
};

}  // namespace campaign
