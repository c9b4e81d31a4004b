#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <b10/transfer.hpp>

#include "sim/checks.hpp"
#include "sim/job.hpp"
#include "sim/scene.hpp"

namespace campaign {

/// The engines of a scene: they start transfers, hear of their ends, and give pages back when they
/// are proven quiet. Every rule that can be seen there is checked there.
template <class Transceiver>
class Workload {
 public:
  explicit Workload(Scene<Transceiver>& scene)
      : s_(scene),
        checks_(scene.tally, scene.watcher, scene.setup.digested && scene.setup.corrupt_payload) {
    jobs_.reserve(s_.setup.jobs);
  }

  [[nodiscard]] bool finished() const { return jobs_.size() == s_.setup.jobs && s_.open.empty(); }
  [[nodiscard]] auto const& jobs() const { return jobs_; }
  [[nodiscard]] Job& job(std::size_t index) { return *jobs_[index]; }
  [[nodiscard]] Checks& checks() { return checks_; }

  void start_job() {
    if (jobs_.size() == s_.setup.jobs) return;
    auto const pair = pick_pair();
    if (!pair) return s_.later(b10::microseconds(700), Todo::start_job, 0);
    auto& random = s_.random;
    auto& from = *s_.nodes[pair->first];
    auto& to = *s_.nodes[pair->second];
    bool const splinters = random.chance(1, s_.setup.splinters);
    std::size_t const count =
        splinters ? splinter_pages
                  : random.between(std::uint64_t{s_.setup.pages_min}, s_.setup.pages_max);
    if (from.pool.free_pages() < count || to.pool.free_pages() < count)
      return s_.later(b10::microseconds(500), Todo::start_job, 0);
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
    cut_pieces(j, from.pool, to.pool, random, s_.setup.whole_pages);
    checks_.prepare(j, from.pool, to.pool);
    s_.open.push_back(&j);
    ++s_.tally.transfers;

    auto const limit = random.between(s_.setup.deadline_min, s_.setup.deadline_max);
    grant(j, to, limit);
    write(j, from, *peer, limit);
    s_.later(limit + b10::milliseconds(8), Todo::give_up, index);
  }

  /// Tells the engines what has ended since.
  void hear() {
    for (auto const& e : std::exchange(s_.ended, {})) end(e);
  }
  /// Gives back what is proven quiet.
  void settle() {
    if (!std::exchange(s_.tick, false)) return;
    for (Job* j : s_.open) {
      free_sources(*j);
      if (j->giving_up && !j->to_free) free_destinations(*j);
    }
    hear();
    s_.drop_over();
  }
  /// Every node has recovered: what was claimed has landed.
  void check_claims() {
    for (auto& j : jobs_)
      if (j->claimed && !j->landed && !j->receiver_gone)
        s_.tally.breach(Breach::success_never_landed, checks_.describe(*j, ""));
  }

 private:
  using Node = typename Scene<Transceiver>::Node;
  static constexpr b10::Duration slack = b10::milliseconds(2);

  /// Two nodes that run and know each other.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> pick_pair() {
    auto const n = static_cast<std::uint32_t>(s_.setup.nodes);
    std::size_t const from = s_.random.below(n);
    std::size_t const to = (from + 1 + s_.random.below(n - 1)) % n;
    auto& nodes = s_.nodes;
    if (!nodes[from]->runs() || !nodes[to]->alive()) return std::nullopt;
    if (nodes[from]->peer(*nodes[to])) return std::pair(from, to);
    nodes[from]->connect(*nodes[to]);
    return std::nullopt;
  }
  void grant(Job& j, Node& to, b10::Duration limit) {
    std::vector<b10::LocalSpan> spans;
    for (Piece const& p : j.pieces) spans.push_back({p.to, p.words * sizeof(Word)});
    j.grant.emplace(to.transceiver->grant(j.request, spans, limit + b10::milliseconds(8)));
    j.grant->on_outcome([this, job = &j, life = to.life](b10::Outcome const& o) {
      s_.ended.push_back({job, false, life, o});
    });
    to.dirty = true;
  }
  void write(Job& j, Node& from, b10::PeerId peer, b10::Duration limit) {
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
      s_.ended.push_back({job, true, life, o});
    });
    from.dirty = true;
  }

  void end(typename Scene<Transceiver>::Ended const& e) {
    Job& j = *e.job;
    auto& n = *s_.nodes[e.sender ? j.from : j.to];
    if (n.life != e.life || !n.alive()) return;  // from a process that is dead
    e.sender ? sender_ended(j, n, e.outcome) : receiver_ended(j, n, e.outcome);
  }
  void sender_ended(Job& j, Node& n, b10::Outcome const& o) {
    auto& tally = s_.tally;
    ++tally.sent[{o.status, o.reason}];
    if (++j.sender_ends > 1)
      return tally.breach(Breach::ended_twice, checks_.describe(j, "at its sender"));
    if (n.disturbances == j.disturbances && n.now() > j.deadline + slack)
      tally.breach(Breach::overdue, checks_.describe(j, o.why));
    j.claimed = o.ok();
    if (o.ok() && !j.landed && !j.to_free && !j.receiver_gone) checks_.claimed_early(j);
    bool const healthy = !s_.sick(j.from) && !s_.sick(j.to) && !j.interfered && s_.setup.ample;
    if (!o.ok() && healthy) tally.breach(Breach::healthy_pair_failed, checks_.describe(j, o.why));
    if (!o.ok()) s_.later(b10::microseconds(s_.random.below(1500)), Todo::give_up, j.serial - 1);
    s_.later(b10::microseconds(s_.random.below(300)), Todo::start_job, 0);
  }
  void receiver_ended(Job& j, Node& n, b10::Outcome const& o) {
    ++s_.tally.received[{o.status, o.reason}];
    s_.watcher.over_at_receiver(to_integer(j.request));
    if (!o.ok() && s_.setup.shared && checks_.is_gathering(j, *s_.nodes[j.from]->control))
      s_.watcher.copies_late(to_integer(j.request));
    if (++j.receiver_ends > 1)
      return s_.tally.breach(Breach::ended_twice, checks_.describe(j, "at its receiver"));
    if (o.ok()) {
      j.landed = true;
      checks_.landed(j, n.pool);
    }
    s_.later(b10::microseconds(s_.random.below(1000)), Todo::give_up, j.serial - 1);
  }

  void free_sources(Job& j) {
    auto& n = *s_.nodes[j.from];
    if (j.from_free || !n.runs() || !j.transfer->sources_released()) return;
    checks_.source_given_back(j, *n.control);
    n.pool.give_back(j.from_pages, poisoned_word);
    j.from_free = true;
  }
  void free_destinations(Job& j) {
    auto& n = *s_.nodes[j.to];
    if (!n.runs()) return;
    n.dirty = true;
    if (!j.grant->revoke({})) return;
    j.grant.reset();
    hear();  // revoking turns the node
    checks_.destination_given_back(j, n.pool, *n.control);
    n.pool.give_back(j.to_pages, retired_word);
    s_.watcher.over_at_receiver(to_integer(j.request));
    j.to_free = true;
  }

  Scene<Transceiver>& s_;
  Checks checks_;
  std::vector<std::unique_ptr<Job>> jobs_{};
};

}  // namespace campaign
