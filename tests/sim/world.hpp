#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <b10/core/transceiver.hpp>

#include "sim/checks.hpp"
#include "sim/run.hpp"
#include "sim/scene.hpp"
#include "sim/setup.hpp"
#include "sim/strikes.hpp"
#include "sim/workload.hpp"

namespace campaign {

/// One run: an engine for each node that gives it work, faults that strike it, and the rules K1-K8
/// checked all along. Everything in it is a function of its setup.
template <class Transceiver>
class World {
 public:
  World(Setup const& setup, Ground const& ground)
      : scene_(setup, ground), strikes_(scene_), workload_(scene_) {}

  RunResult run() {
    auto& s = scene_;
    s.tally.runs = 1;
    s.tally.shared_runs = s.setup.shared;
    s.tally.digested_runs = s.setup.digested;
    s.tally.faults_aimed = s.setup.faults.size();
    s.later(tick, Todo::tick, 0);
    for (std::uint32_t i = 0; i < s.setup.concurrency; ++i)
      s.later(b10::microseconds(200 * (i + 1)), Todo::start_job, 0);
    auto const limit = s.network->now() + b10::seconds(20);
    while (!workload_.finished() && s.network->now() < limit) {
      if (!workload_.jobs().empty()) s.network->timeline->chooser = s.setup.chooser;
      step();
    }
    s.network->timeline->chooser = nullptr;
    for (Job const* j : s.open)
      s.tally.breach(Breach::never_ended, Checks::describe(*j, "is still running"));
    recover();
    auto& journal = s.network->timeline->journal;
    s.tally.bytes = workload_.checks().bytes_landed;
    s.tally.late_bytes = s.network->late_bytes();
    s.tally.events = journal.count();
    s.tally.journal = journal.hash();
    journal.observer = nullptr;
    for (auto& j : workload_.jobs()) j->grant.reset();
    for (auto& n : s.nodes)
      if (n->alive()) n->kill();
    auto const graves = s.graveyard->end_run();
    if (graves.disturbed > 0)
      s.tally.breach(Breach::dropped_staging_written, std::to_string(graves.disturbed) + " blocks");
    if (graves.unmapped_early > 0)
      s.tally.breach(Breach::unmapped_early, std::to_string(graves.unmapped_early) + " mappings");
    return {std::move(s.tally), s.setup, journal.events()};
  }

 private:
  static constexpr b10::Duration tick = b10::microseconds(500);

  void step() {
    scene_.network->timeline->step();
    strikes_.strike();
    for (auto const& d : std::exchange(scene_.due, {})) act(d.what, d.which);
    turn_nodes();
    workload_.settle();
    strikes_.strike();
  }
  void act(Todo what, std::uint64_t which) {
    auto& s = scene_;
    switch (what) {
      case Todo::tick:
        for (auto& n : s.nodes) n->dirty = true;
        s.tick = true;
        return s.later(recovering_ ? b10::milliseconds(4) : tick, Todo::tick, 0);
      case Todo::start_job:
        return workload_.start_job();
      case Todo::resume:
        return s.nodes[which]->resume();
      case Todo::restart:
        if (!s.nodes[which]->alive()) s.start(which);
        return;
      case Todo::let_go:
        return s.nodes[which]->control->release_all();
      case Todo::give_up:
        workload_.job(which).giving_up = true;
        s.tick = true;
        return;
    }
  }
  void turn_nodes() {
    for (auto& n : scene_.nodes) {
      if (!n->runs() || !n->wants_turn() || is_put_off()) continue;
      n->turn();
      workload_.checks().books(*n);
      workload_.hear();
      scene_.tick = true;
    }
  }

  /// The chooser lets more happen before the node is turned.
  [[nodiscard]] bool is_put_off() {
    auto& timeline = *scene_.network->timeline;
    return timeline.chooser && timeline.next() == timeline.now() &&
           timeline.chooser->choose(2) == 1;
  }

  /// After the last job: everything that was held up goes on, and then all must be as it was.
  void recover() {
    auto& s = scene_;
    auto& checks = workload_.checks();
    recovering_ = true;
    s.network->clear_rules();
    for (std::size_t i = 0; i < s.nodes.size(); ++i) {
      if (!s.nodes[i]->alive()) s.start(i);
      s.nodes[i]->resume();
      s.nodes[i]->control->clear_rules();
      s.nodes[i]->control->release_all();
    }
    auto const is_whole = [&](auto const& n) {
      return checks.is_whole(*n, s.setup.slices * s.setup.slice_bytes[n->index()]);
    };
    auto const limit = s.network->now() + b10::seconds(4);
    do {
      auto const until = s.network->now() + b10::milliseconds(45);
      while (s.network->now() < until) step();
    } while (!std::all_of(s.nodes.begin(), s.nodes.end(), is_whole) && s.network->now() < limit);
    for (auto& n : s.nodes) {
      if (!is_whole(n)) s.tally.breach(Breach::staging_lost, checks.describe(*n));
      checks.whole(n->pool, *workload_.jobs().back());
    }
    workload_.check_claims();
  }

  Scene<Transceiver> scene_;
  Strikes<Transceiver> strikes_;
  Workload<Transceiver> workload_;
  bool recovering_ = false;
};

}  // namespace campaign
