#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <b10/sim/name_messages.hpp>
#include <b10/transceiver.hpp>

namespace support {

/// The toy setup of the field cases over the simulated network: spans of 256 B, slices of 4 spans,
/// 2 in flight. Nodes are processes: they can be stopped, killed and started again.
template <
    class Transceiver = b10::Transceiver<
        b10::staging::Host<b10::slicing::Pipelined<1024, 2>, b10::copy::Fake>, b10::tag::Hashed,
        b10::completion::CopyEvent, b10::quarantine::Ttl<120>, b10::transport::Sim>>
class SimNodes {
 public:
  using Network = b10::transport::Sim::Network;
  static constexpr std::size_t span = 256;
  static constexpr std::size_t blocks = 256;

  struct Node {
    std::string name;
    std::vector<std::byte> pool = std::vector<std::byte>(blocks * span);
    std::shared_ptr<b10::copy::FakeControl> copies{};
    std::unique_ptr<Transceiver> b10{};
    [[nodiscard]] std::byte* block(std::size_t i) { return pool.data() + i * span; }
  };

  explicit SimNodes(std::size_t count = 2, b10::transport::sim::NetworkOptions options = {},
                    std::uint64_t slices = 16)
      : slices_(slices) {
    options.namer = &b10::sim::name_messages;
    network = std::make_shared<Network>(options);
    for (std::size_t i = 0; i < count; ++i) {
      nodes.push_back(std::make_unique<Node>());
      nodes[i]->name = std::string(1, static_cast<char>('a' + i));
      for (std::size_t b = 0; b < nodes[i]->pool.size(); ++b)
        nodes[i]->pool[b] = static_cast<std::byte>(31 * i + b / span + b);
      start(i);
    }
  }
  ~SimNodes() {
    for (auto& n : nodes) n->copies->end();  // a copy that is held has no process any more
  }

  void start(std::size_t i) {
    Node& n = *nodes[i];
    n.copies = std::make_shared<b10::copy::FakeControl>(
        network->timeline, b10::copy::FakeControl::Options{.node = network->next_node()});
    typename Transceiver::Config c;
    c.name = n.name;
    c.staging.buffers = slices_;
    c.staging.buffer_bytes = 1024;
    c.staging.refill = b10::staging::Refill::inline_;
    c.staging.page_lock = b10::staging::PageLock::never;
    c.staging.copies.control = n.copies;
    c.transport.network = network;
    c.transport.address = n.name;
    c.progress = b10::Progress::manual;
    c.quarantine_bytes_max = c.generations_penned_max = ~std::uint64_t{0};
    n.b10 = std::make_unique<Transceiver>(c);
    n.b10->register_memory({n.pool.data(), n.pool.size()});
  }
  /// SIGKILL.
  void kill(std::size_t i) {
    network->kill_peer(nodes[i]->name);
    nodes[i]->copies->end();
    nodes[i]->b10.reset();
  }
  void restart(std::size_t i) {
    kill(i);
    start(i);
  }

  void turn() {
    for (int round = 0; round < 3; ++round)
      for (auto& n : nodes)
        if (n->b10 && !network->stopped(n->name)) n->b10->progress();
  }
  /// From event to event until `done`, or nothing changes it within `limit`.
  template <class Done>
  bool until(Done done, b10::Duration limit = b10::seconds(2)) {
    auto const end = network->now() + limit;
    for (turn(); !done(); turn()) {
      if (network->now() >= end) return false;
      // Lanes look at their deadlines when they are turned.
      network->timeline->advance_to(
          std::min({end, network->timeline->next(), network->now() + b10::milliseconds(1)}));
    }
    return true;
  }
  void advance(b10::Duration d) {
    (void)until([] { return false; }, d);
  }

  b10::PeerId connect(std::size_t from, std::size_t to) {
    auto c = nodes[from]->b10->begin_connect(nodes[to]->name, b10::seconds(1));
    (void)until([&] { return c.done(); });
    if (!c.peer()) throw std::runtime_error("connect: " + c.error());
    return *c.peer();
  }
  [[nodiscard]] std::vector<b10::LocalSpan> spans(std::size_t node, std::size_t first,
                                                  std::size_t count) {
    std::vector<b10::LocalSpan> out;
    for (std::size_t i = first; i < first + count; ++i)
      out.push_back({nodes[node]->block(i), span});
    return out;
  }
  [[nodiscard]] b10::Grant grant(std::size_t node, std::uint64_t request, std::size_t first,
                                 std::size_t count) {
    return nodes[node]->b10->grant(b10::RequestId{request}, spans(node, first, count),
                                   b10::seconds(1000));
  }
  /// Blocks first .. first + count - 1 of `from` to the same blocks of `to`.
  b10::Transfer write(std::size_t from, b10::PeerId peer, std::size_t to, std::uint64_t request,
                      std::size_t first, std::size_t count,
                      b10::Duration deadline = b10::seconds(1)) {
    std::vector<b10::RemoteSpan> remote;
    for (auto const& s : spans(to, first, count)) remote.push_back(b10::as_remote(s));
    auto const local = spans(from, first, count);
    return nodes[from]->b10->write(peer, {.request = b10::RequestId{request},
                                          .sources = local,
                                          .destinations = remote,
                                          .deadline = deadline});
  }
  [[nodiscard]] bool equal(std::size_t from, std::size_t to, std::size_t first,
                           std::size_t count) const {
    auto const& a = nodes[from]->pool;
    auto const& b = nodes[to]->pool;
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(first * span),
                      a.begin() + static_cast<std::ptrdiff_t>((first + count) * span),
                      b.begin() + static_cast<std::ptrdiff_t>(first * span));
  }

  std::shared_ptr<Network> network;
  std::vector<std::unique_ptr<Node>> nodes;

 private:
  std::uint64_t slices_;
};

}  // namespace support
