#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/transceiver.hpp>
#include <b10/sim/timeline.hpp>
#include <b10/transport/sim.hpp>

#include "sim/checks.hpp"
#include "sim/job.hpp"
#include "sim/node.hpp"
#include "sim/schedule.hpp"
#include "sim/setup.hpp"
#include "sim/tally.hpp"
#include "sim/watcher.hpp"

namespace campaign {

/// A duration that was drawn as a number of microseconds.
[[nodiscard]] constexpr b10::Duration drawn_us(std::uint64_t n) noexcept {
  return b10::microseconds(static_cast<std::int64_t>(n));
}

/// One run: an engine for each node that gives it work, faults that strike it, and the rules K1-K8
/// checked all along. Everything in it is a function of the seed.
template <class Transceiver>
class World final : b10::sim::Timeline::Client {
 public:
  World(RunOptions const& options, Memory const& memory, std::shared_ptr<Graveyard> graveyard)
      : setup_(draw_setup(options)),
        random_(options.seed ^ 0x51ed'270b),
        network_(std::make_shared<Network>(setup_.network)),
        graveyard_(std::move(graveyard)),
        watcher_(setup_.faults, tally_),
        checks_(tally_, watcher_),
        client_(network_->timeline->join(*this)) {
    network_->timeline->journal.observer = &watcher_;
    for (std::size_t i = 0; i < setup_.nodes; ++i) {
      nodes_.push_back(
          std::make_unique<Node<Transceiver>>(i, network_, setup_, graveyard_, memory.pool(i)));
      start(i);
    }
    for (Fault const& f : setup_.faults)
      if (Watcher::is_by_rule(f)) network_->add(rule_of(f, options.corrupt_payload));
    jobs_.reserve(setup_.jobs);
  }
  World(World const&) = delete;
  World& operator=(World const&) = delete;

  Tally run() {
    tally_.runs = 1;
    tally_.faults_aimed = setup_.faults.size();
    later(tick, Todo::tick, 0);
    for (std::uint32_t i = 0; i < setup_.concurrency; ++i)
      later(b10::microseconds(200 * (i + 1)), Todo::start_job, 0);
    auto const limit = network_->now() + b10::seconds(20);
    while (!finished() && network_->now() < limit) step();
    for (auto& j : jobs_)
      if (!j->over()) tally_.breach(Breach::never_ended, checks_.describe(*j, "is still running"));
    recover();
    tally_.bytes = checks_.bytes_landed;
    tally_.late_bytes = network_->late_bytes();
    tally_.events = network_->timeline->journal.count();
    tally_.journal = network_->timeline->journal.hash();
    network_->timeline->journal.observer = nullptr;
    for (auto& j : jobs_) j->grant.reset();
    for (auto& n : nodes_)
      if (n->alive()) n->kill();
    if (auto const n = graveyard_->disturbed())
      tally_.breach(Breach::dropped_staging_written, std::to_string(n) + " blocks");
    return std::move(tally_);
  }
  [[nodiscard]] Setup const& setup() const { return setup_; }
  [[nodiscard]] b10::sim::Journal const& journal() const { return network_->timeline->journal; }

 private:
  static constexpr b10::Duration tick = b10::microseconds(500);
  static constexpr b10::Duration slack = b10::milliseconds(2);

  enum class Todo : std::uint32_t { tick, start_job, resume, restart, let_go, give_up };
  struct Due {
    Todo what;
    std::uint64_t which;
  };
  struct Ended {
    Job* job;
    bool sender;
    std::uint32_t life;
    b10::Outcome outcome;
  };

  void later(b10::Duration d, Todo what, std::uint64_t which) {
    network_->timeline->after(d, client_, static_cast<std::uint32_t>(what), which);
  }
  void on_time(std::uint32_t what, std::uint64_t which) override {
    due_.push_back({static_cast<Todo>(what), which});
  }

  void step() {
    network_->timeline->step();
    strike();
    for (auto const& d : std::exchange(due_, {})) act(d);
    turn_nodes();
    settle_jobs();
    strike();
  }
  [[nodiscard]] bool finished() const { return jobs_.size() == setup_.jobs && running_ == 0; }

  void act(Due const& d) {
    switch (d.what) {
      case Todo::tick:
        for (auto& n : nodes_) n->dirty = true;
        tick_ = true;
        return later(tick, Todo::tick, 0);
      case Todo::start_job:
        return start_job();
      case Todo::resume:
        network_->resume_peer(nodes_[d.which]->name);
        nodes_[d.which]->dirty = true;
        return;
      case Todo::restart:
        if (!nodes_[d.which]->alive()) start(d.which);
        return;
      case Todo::let_go:
        return nodes_[d.which]->control->release_all();
      case Todo::give_up:
        jobs_[d.which]->giving_up = true;
        tick_ = true;
        return;
    }
  }

  void turn_nodes() {
    for (auto& n : nodes_) {
      if (!n->runs() || !n->wants_turn()) continue;
      n->turn();
      checks_.books(*n);
      for (auto const& e : std::exchange(ended_, {})) end(e);
      tick_ = true;
    }
  }

  // --- Nodes -------------------------------------------------------------------------------------

  void start(std::size_t i) {
    auto& n = *nodes_[i];
    n.start();
    node_of_.resize(to_integer(n.id) + std::size_t{1});
    node_of_[to_integer(n.id)] = i;
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      if (k != i && nodes_[k]->alive()) n.connect(*nodes_[k]);
  }
  void kill(std::size_t i, b10::Duration down) {
    auto& n = *nodes_[i];
    if (!n.alive()) return;
    for (auto& j : jobs_) {
      if (j->over()) continue;
      if (j->from == i && j->from_life == n.life) j->sender_gone = j->from_free = true;
      if (j->to == i && j->to_life == n.life) {
        j->receiver_gone = j->to_free = true;
        j->grant.reset();
      }
    }
    n.kill();
    ended_.clear();
    n.clock_ahead = {};
    count_running();
    later(down, Todo::restart, i);
  }

  // --- Faults ------------------------------------------------------------------------------------

  void strike() {
    for (Strike const& s : watcher_.take_strikes()) strike(s);
    for (auto const id : std::exchange(watcher_.held, {}))
      if (auto const i = node(id))
        later(drawn_us(random_.between(std::uint64_t{100}, std::uint64_t{80'000})), Todo::let_go,
              *i);
  }
  [[nodiscard]] bool sick(std::size_t i) const {
    auto const& n = *nodes_[i];
    return n.sick || (to_integer(n.id) < watcher_.hit.size() && watcher_.hit[to_integer(n.id)]);
  }
  [[nodiscard]] std::optional<std::size_t> node(b10::sim::NodeId id) const {
    if (id == b10::sim::NodeId::none || to_integer(id) >= node_of_.size()) return std::nullopt;
    auto const i = node_of_[to_integer(id)];
    return nodes_[i]->id == id ? std::optional(i) : std::nullopt;
  }
  void strike(Strike const& s) {
    // A copy knows only its own node: the other end is that of a job it has.
    auto from = node(s.sender), to = node(s.receiver);
    if (!from && !to) return;
    for (auto& j : jobs_) {
      if (j->over() || (from && j->from != *from) || (to && j->to != *to)) continue;
      from = j->from;
      to = j->to;
      break;
    }
    Action const a = s.fault.action;
    bool const at_receiver = a == Action::stop_receiver || a == Action::kill_receiver ||
                             a == Action::jump_receiver || a == Action::revoke ||
                             s.fault.step == Step::scatter_started;
    auto const target = at_receiver ? to : from;
    if (!target || !nodes_[*target]->alive()) return;
    if (hit_node(*target, from, to, s.fault)) {
      if (!is_message_fault(a) && !is_copy_fault(a)) tally_.hit(s.fault.step, a);
    }
  }
  /// False if there was nothing to hit.
  bool hit_node(std::size_t i, std::optional<std::size_t> from, std::optional<std::size_t> to,
                Fault const& f) {
    auto& n = *nodes_[i];
    b10::sim::Random random(f.param);
    switch (f.action) {
      case Action::stop_sender:
      case Action::stop_receiver: {
        if (network_->stopped(n.name)) return false;
        ++n.disturbances;
        n.sick = true;
        network_->stop_peer(n.name);
        later(drawn_us(random.between(std::uint64_t{50}, std::uint64_t{60'000})), Todo::resume, i);
        return true;
      }
      case Action::kill_sender:
      case Action::kill_receiver:
        n.sick = true;
        kill(i, drawn_us(random.between(std::uint64_t{10}, std::uint64_t{8'000})));
        return true;
      case Action::cut:
        n.sick = true;
        network_->cut(n.name);
        return true;
      case Action::jump_sender:
      case Action::jump_receiver: {
        n.sick = true;
        ++n.disturbances;
        auto const ahead =
            drawn_us(random.between(std::uint64_t{1}, std::uint64_t{1} << random.between(1u, 36u)));
        n.clock_ahead = n.clock_ahead + ahead;
        network_->jump_clock(n.name, ahead);
        n.dirty = true;
        return true;
      }
      case Action::hold_copy:
      case Action::fail_copy:
      case Action::refuse_copy:
      case Action::slow_copy:
        n.sick = true;
        n.control->add(
            {.fault = static_cast<b10::copy::CopyFault>(static_cast<unsigned>(f.action) -
                                                        static_cast<unsigned>(Action::hold_copy)),
             .direction = f.step == Step::gather_started ? b10::copy::Direction::gather
                                                         : b10::copy::Direction::scatter});
        return true;
      case Action::cancel:
      case Action::revoke:
        return interfere(from, to, f.action == Action::cancel);
      case Action::drop:  // of a greeting
        n.sick = true;
        network_->lose_greetings(n.name, 1);
        tally_.hit(f.step, f.action);
        return true;
      case Action::fail_post:  // of a receive
        network_->fail_receive(1);
        return true;
      default:
        return false;
    }
  }
  /// The engine of one side ends a job of that pair.
  bool interfere(std::optional<std::size_t> from, std::optional<std::size_t> to, bool cancel) {
    for (auto& j : jobs_) {
      if (j->over() || j->interfered || j->from != from || j->to != to) continue;
      j->interfered = true;
      if (cancel && j->transfer && !j->sender_gone) {
        j->transfer->cancel();
        nodes_[j->from]->dirty = true;
      } else {
        j->giving_up = tick_ = true;
      }
      return true;
    }
    return false;
  }
  [[nodiscard]] static b10::transport::sim::MessageRule rule_of(Fault const& f,
                                                                bool corrupt_payload) {
    b10::sim::Random random(f.param);
    b10::transport::sim::MessageRule r;
    r.fault = static_cast<b10::transport::sim::MessageFault>(f.action);
    r.kind = kind_posted(f.step);
    r.skip = f.skip;
    r.delay =
        drawn_us(random.between(std::uint64_t{1}, std::uint64_t{1} << random.between(3u, 16u)));
    r.at = random.below(f.action == Action::truncate ? 1200 : 1u << 16);
    bool const header_only = r.kind == b10::MessageKind::data && !corrupt_payload;
    if (f.action == Action::corrupt && header_only) r.at %= 64 * 8;
    return r;
  }

  // --- Jobs --------------------------------------------------------------------------------------

  void start_job() {
    if (jobs_.size() == setup_.jobs) return;
    auto const pair = pick_pair();
    if (!pair) return later(b10::microseconds(700), Todo::start_job, 0);
    auto& from = *nodes_[pair->first];
    auto& to = *nodes_[pair->second];
    bool const splinters = random_.chance(1, setup_.splinters);
    std::size_t const count = splinters ? splinter_pages : 1 + random_.below(setup_.pages_max);
    if (from.pool.free_pages() < count || to.pool.free_pages() < count)
      return later(b10::microseconds(500), Todo::start_job, 0);
    auto const peer = from.peer(to);

    jobs_.push_back(std::make_unique<Job>());
    Job& j = *jobs_.back();
    auto const index = jobs_.size() - 1;
    j.serial = static_cast<std::uint32_t>(jobs_.size());
    j.request = request_of(j.serial);
    j.from = pair->first;
    j.to = pair->second;
    j.from_life = from.life;
    j.to_life = to.life;
    j.from_pages = from.pool.take(count);
    j.to_pages = to.pool.take(count);
    cut_pieces(j, from.pool, to.pool, random_);
    checks_.prepare(j, from.pool, to.pool);
    ++running_;
    ++tally_.transfers;

    auto const limit = random_.between(setup_.deadline_min, setup_.deadline_max);
    grant(j, to, limit);
    write(j, from, *peer, limit);
    later(limit + b10::milliseconds(8), Todo::give_up, index);
  }
  /// Two nodes that run and know each other.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> pick_pair() {
    auto const n = static_cast<std::uint32_t>(setup_.nodes);
    std::size_t const from = random_.below(n);
    std::size_t const to = (from + 1 + random_.below(n - 1)) % n;
    if (!nodes_[from]->runs() || !nodes_[to]->alive()) return std::nullopt;
    if (nodes_[from]->peer(*nodes_[to])) return std::pair(from, to);
    nodes_[from]->connect(*nodes_[to]);
    return std::nullopt;
  }
  void grant(Job& j, Node<Transceiver>& to, b10::Duration limit) {
    std::vector<b10::LocalSpan> spans;
    for (Piece const& p : j.pieces) spans.push_back({p.to, p.words * sizeof(Word)});
    j.grant.emplace(to.transceiver->grant(j.request, spans, limit + b10::milliseconds(8)));
    j.grant->on_outcome([this, job = &j, life = to.life](b10::Outcome const& o) {
      ended_.push_back({job, false, life, o});
    });
    to.dirty = true;
  }
  void write(Job& j, Node<Transceiver>& from, b10::PeerId peer, b10::Duration limit) {
    std::vector<b10::LocalSpan> sources;
    std::vector<b10::RemoteSpan> destinations;
    for (Piece const& p : j.pieces) {
      sources.push_back({p.from, p.words * sizeof(Word)});
      destinations.push_back(b10::as_remote(b10::LocalSpan{p.to, p.words * sizeof(Word)}));
    }
    j.deadline = from.now() + limit;
    j.disturbances = from.disturbances;
    j.transfer.emplace(from.transceiver->write(peer, {.request = j.request,
                                                      .sources = sources,
                                                      .destinations = destinations,
                                                      .deadline = limit}));
    j.transfer->on_done([this, job = &j, life = from.life](b10::Outcome const& o) {
      ended_.push_back({job, true, life, o});
    });
    from.dirty = true;
  }

  void end(Ended const& e) {
    Job& j = *e.job;
    auto& n = *nodes_[e.sender ? j.from : j.to];
    if (n.life != e.life || !n.alive()) return;  // from a process that is dead
    e.sender ? sender_ended(j, n, e.outcome) : receiver_ended(j, n, e.outcome);
  }
  void sender_ended(Job& j, Node<Transceiver>& n, b10::Outcome const& o) {
    ++tally_.sent[{o.status, o.reason}];
    if (++j.sender_ends > 1)
      return tally_.breach(Breach::ended_twice, checks_.describe(j, "at its sender"));
    if (n.disturbances == j.disturbances && n.now() > j.deadline + slack)
      tally_.breach(Breach::overdue, checks_.describe(j, o.why));
    j.claimed = o.ok();
    if (o.ok() && !j.landed && !j.to_free && !j.receiver_gone) checks_.claimed_early(j);
    bool const healthy = !sick(j.from) && !sick(j.to) && !j.interfered && setup_.ample;
    if (!o.ok() && healthy) tally_.breach(Breach::healthy_pair_failed, checks_.describe(j, o.why));
    if (!o.ok()) later(b10::microseconds(random_.below(1500)), Todo::give_up, j.serial - 1);
    later(b10::microseconds(random_.below(300)), Todo::start_job, 0);
  }
  void receiver_ended(Job& j, Node<Transceiver>& n, b10::Outcome const& o) {
    ++tally_.received[{o.status, o.reason}];
    watcher_.over_at_receiver(to_integer(j.request));
    if (++j.receiver_ends > 1)
      return tally_.breach(Breach::ended_twice, checks_.describe(j, "at its receiver"));
    if (o.ok()) {
      j.landed = true;
      checks_.landed(j, n.pool);
    }
    later(b10::microseconds(random_.below(1000)), Todo::give_up, j.serial - 1);
  }

  /// Gives back what is proven quiet.
  void settle_jobs() {
    if (!std::exchange(tick_, false)) return;
    for (; first_open_ < jobs_.size() && jobs_[first_open_]->over(); ++first_open_) {
    }
    for (std::size_t i = first_open_; i < jobs_.size(); ++i) {
      Job& j = *jobs_[i];
      if (j.over()) continue;
      free_sources(j);
      if (j.giving_up && !j.to_free) free_destinations(j);
    }
    for (auto const& e : std::exchange(ended_, {})) end(e);
    count_running();
  }
  void count_running() {
    running_ = static_cast<std::size_t>(
        std::count_if(jobs_.begin() + static_cast<std::ptrdiff_t>(first_open_), jobs_.end(),
                      [](auto const& j) { return !j->over(); }));
  }
  void free_sources(Job& j) {
    auto& n = *nodes_[j.from];
    if (j.from_free || !n.runs() || !j.transfer->sources_released()) return;
    checks_.source_given_back(j, *n.control);
    n.pool.give_back(j.from_pages, poisoned_word);
    j.from_free = true;
  }
  void free_destinations(Job& j) {
    auto& n = *nodes_[j.to];
    if (!n.runs()) return;
    n.dirty = true;
    if (!j.grant->revoke({})) return;
    j.grant.reset();
    for (auto const& e : std::exchange(ended_, {})) end(e);  // revoking turns the node
    checks_.destination_given_back(j, n.pool, *n.control);
    n.pool.give_back(j.to_pages, retired_word);
    watcher_.over_at_receiver(to_integer(j.request));
    j.to_free = true;
  }

  /// After the last job: everything that was held up goes on, and then all must be as it was.
  void recover() {
    network_->clear_rules();
    auto const limit = network_->now() + b10::seconds(4);
    bool whole = false;
    for (bool first = true; !whole && network_->now() < limit; first = false) {
      if (first)
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
          if (!nodes_[i]->alive()) start(i);
          network_->resume_peer(nodes_[i]->name);
          nodes_[i]->control->clear_rules();
          nodes_[i]->control->release_all();
        }
      auto const until = network_->now() + b10::milliseconds(45);
      while (network_->now() < until) step();
      whole = std::all_of(nodes_.begin(), nodes_.end(), [&](auto const& n) {
        return checks_.is_whole(*n, setup_.slices * setup_.slice_bytes[n->index()]);
      });
    }
    for (auto& n : nodes_) {
      if (!checks_.is_whole(*n, setup_.slices * setup_.slice_bytes[n->index()]))
        tally_.breach(Breach::staging_lost, checks_.describe(*n));
      checks_.whole(n->pool, *jobs_.back());
    }
    for (auto& j : jobs_)
      if (j->claimed && !j->landed && !j->receiver_gone)
        tally_.breach(Breach::success_never_landed, checks_.describe(*j, ""));
  }

  Tally tally_{};
  Setup const setup_;
  b10::sim::Random random_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<Graveyard> graveyard_;
  Watcher watcher_;
  Checks checks_;
  b10::sim::Timeline::ClientId client_;
  std::vector<std::unique_ptr<Node<Transceiver>>> nodes_{};
  std::vector<std::size_t> node_of_{};  ///< by NodeId
  std::vector<std::unique_ptr<Job>> jobs_{};
  std::size_t first_open_ = 0;
  std::size_t running_ = 0;
  bool tick_ = false;
  std::vector<Due> due_{};
  std::vector<Ended> ended_{};
};

}  // namespace campaign
