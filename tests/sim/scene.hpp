#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/sim/random.hpp>
#include <b10/sim/timeline.hpp>

#include "sim/job.hpp"
#include "sim/node.hpp"
#include "sim/run.hpp"
#include "sim/setup.hpp"
#include "sim/tally.hpp"
#include "sim/watcher.hpp"

namespace campaign {

/// Something that a run has to do at a later time.
enum class Todo : std::uint32_t { tick, start_job, resume, restart, let_go, give_up };

/// The stage of one run: network, nodes, the jobs that are not over, and what is due. What its
/// parts (strikes.hpp, workload.hpp) share; world.hpp turns it.
template <class Transceiver>
class Scene final : b10::sim::Timeline::Client {
 public:
  using Node = campaign::Node<Transceiver>;
  struct Due {
    Todo what;
    std::uint64_t which;
  };
  /// An outcome that was told to an engine. `life`: of the process that was told.
  struct Ended {
    Job* job;
    bool sender;
    std::uint32_t life;
    b10::Outcome outcome;
  };

  Scene(Setup const& s, Ground const& ground)
      : setup(s),
        random(s.seed ^ 0x51ed'270b),
        network(std::make_shared<Network>(s.network)),
        graveyard(ground.graveyard),
        watcher(s.faults, tally),
        client_(network->timeline->join(*this)) {
    network->timeline->journal.observer = &watcher;
    for (std::size_t i = 0; i < setup.nodes; ++i) {
      nodes.push_back(std::make_unique<Node>(i, network, setup, graveyard, ground.memory.pool(i)));
      start(i);
    }
  }
  Scene(Scene const&) = delete;
  Scene& operator=(Scene const&) = delete;

  void later(b10::Duration d, Todo what, std::uint64_t which) {
    network->timeline->after(d, client_, static_cast<std::uint32_t>(what), which);
  }

  void start(std::size_t i) {
    auto& n = *nodes[i];
    n.start();
    node_of_.resize(to_integer(n.id) + std::size_t{1});
    node_of_[to_integer(n.id)] = i;
    for (std::size_t k = 0; k < nodes.size(); ++k)
      if (k != i && nodes[k]->alive()) {
        n.connect(*nodes[k]);
        if (nodes[k]->runs() && random.chance(1, 3)) nodes[k]->connect(n);  // both at once
      }
  }
  /// SIGKILL, and a restart at the same address after `down`.
  void kill(std::size_t i, b10::Duration down) {
    auto& n = *nodes[i];
    if (!n.alive()) return;
    for (Job* j : open) {
      if (j->from == i && j->from_life == n.life) j->sender_gone = j->from_free = true;
      if (j->to == i && j->to_life == n.life) {
        j->receiver_gone = j->to_free = true;
        j->grant.reset();
      }
    }
    n.kill();
    ended.clear();
    n.clock_ahead = {};
    drop_over();
    later(down, Todo::restart, i);
  }
  void drop_over() {
    std::erase_if(open, [](Job const* j) { return j->over(); });
  }

  [[nodiscard]] std::optional<std::size_t> node(b10::sim::NodeId id) const {
    if (id == b10::sim::NodeId::none || to_integer(id) >= node_of_.size()) return std::nullopt;
    auto const i = node_of_[to_integer(id)];
    return nodes[i]->id == id ? std::optional(i) : std::nullopt;
  }
  /// Some fault has hit it or its messages.
  [[nodiscard]] bool sick(std::size_t i) const {
    auto const& n = *nodes[i];
    return n.sick || (to_integer(n.id) < watcher.hit.size() && watcher.hit[to_integer(n.id)]);
  }

  Tally tally{};
  Setup const setup;
  b10::sim::Random random;
  std::shared_ptr<Network> network;
  std::shared_ptr<Graveyard> graveyard;
  Watcher watcher;
  std::vector<std::unique_ptr<Node>> nodes{};
  std::vector<Job*> open{};  ///< jobs that are not over, oldest first
  std::vector<Due> due{};
  std::vector<Ended> ended{};
  bool tick = false;  ///< something may be given back now

 private:
  void on_time(std::uint32_t what, std::uint64_t which) override {
    due.push_back({static_cast<Todo>(what), which});
  }

  b10::sim::Timeline::ClientId client_;
  std::vector<std::size_t> node_of_{};  ///< by NodeId
};

}  // namespace campaign
