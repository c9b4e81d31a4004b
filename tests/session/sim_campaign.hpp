#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/session/prefill_slicer.hpp>
#include <b10/sim/random.hpp>

#include "session/scenario.hpp"
#include "support/sim_nodes.hpp"
#include "support/two_nodes.hpp"

namespace support {

/// Random requests between two prefill and two decode ranks over the simulated network, under
/// random faults, cancels, kills and restarts; K1 to K8 are looked at all along. A function of the
/// seed.
class SessionCampaign {
  using Nodes = SimNodes<>;
  using T = std::remove_reference_t<decltype(*std::declval<Nodes::Node>().b10)>;
  using Rank = AgentRank<T>;
  using Tx = Rank::Node::Tx;
  using Rx = Rank::Node::Rx;
  static constexpr std::uint64_t block_bytes = 256;
  static constexpr std::uint32_t blocks = 64;
  static constexpr std::uint32_t ranks = 4;  // 0 and 1 prefill, 2 and 3 decode
  static constexpr b10::Duration session_limit = b10::milliseconds(60);
  static constexpr b10::Duration slack = b10::milliseconds(3);

 public:
  struct Counts {
    std::uint64_t landed = 0, cancelled = 0, failed = 0, lost = 0, kills = 0, stops = 0, rules = 0;
    std::vector<std::string> breaches{};
  };

  /// `sick_pair`: faults strike ranks 0 and 2 only. Whatever nobody cancels between 1 and 3 must
  /// land then, however many of its neighbours are cancelled, and no cancel there may end as an
  /// error (K8).
  SessionCampaign(std::uint64_t seed, bool sick_pair)
      : random_(seed),
        sick_pair_(sick_pair),
        nodes_(ranks,
               {.seed = seed, .pieces_min = 1, .pieces_max = 4, .silence = b10::milliseconds(10)},
               64) {
    auto const next = b10::to_integer(nodes_.network->next_node());
    for (std::uint32_t i = 0; i < ranks; ++i) {
      sim_ids_[i] = static_cast<b10::sim::NodeId>(next - ranks + i);
      boot(i);
    }
  }

  SessionCampaign(SessionCampaign const&) = delete;
  SessionCampaign& operator=(SessionCampaign const&) = delete;
  ~SessionCampaign() {
    jobs_.clear();
    for (std::uint32_t i = 0; i < ranks; ++i) nodes_.kill(i);
  }

  Counts run() {
    auto const end = nodes_.network->now() + b10::seconds(20);
    std::uint32_t const requests = 24 + random_.below(24);
    while ((next_ <= requests || !jobs_.empty()) && nodes_.network->now() < end) {
      turn();
      look_at_gauges();
      bool const more = next_ <= requests;
      if (more && jobs_.size() < 6 && random_.chance(1, 3)) ask();
      for (auto it = jobs_.begin(); it != jobs_.end();)
        it = work_on(it->second) ? jobs_.erase(it) : std::next(it);
      if (more && random_.chance(1, 40)) strike();
      heal(!more);
      nodes_.network->timeline->advance_to(std::min(
          nodes_.network->timeline->next(), nodes_.network->now() + b10::microseconds(100)));
    }
    for (auto const& [id, job] : jobs_)
      breach("K4 request " + std::to_string(id) + " never ends: " + describe(job));
    for (std::uint32_t i = 0; i < ranks; ++i)
      for (auto const b : free_[i]) look_at_canary(i, b);
    if (sick_pair_) require_healthy_pair();
    return std::move(counts_);
  }

 private:
  struct Job {
    std::uint64_t id = 0;
    std::uint32_t from = 0, to = 0;
    std::uint64_t tokens = 0;
    std::shared_ptr<Tx> tx{};
    std::shared_ptr<Rx> rx{};
    std::optional<b10::session::PrefillSlicer> slicer{};
    std::vector<std::uint32_t> sources{}, targets{};
    std::vector<std::pair<b10::HostEvent, std::pair<std::uint32_t, std::uint32_t>>> computing{};
    std::uint64_t computed = 0;
    std::size_t filled = 0;  // blocks whose event has fired
    b10::Instant asked{};
    std::optional<ses::SessionStatus> tx_end{}, rx_end{};
    bool disturbed = false;  // cancelled by us
  };

  [[nodiscard]] static std::string describe(Job const& job) {
    auto const side = [](auto const& session) {
      return session ? std::string(to_string(session->status())) + " " + session->why() : "gone";
    };
    return "sender " + side(job.tx) + ", receiver " + side(job.rx);
  }
  void breach(std::string const& what) { counts_.breaches.push_back(what); }
  [[nodiscard]] std::span<std::byte> block(std::uint32_t rank, std::uint32_t i) {
    return std::span(nodes_.nodes[rank]->pool).subspan(i * block_bytes, block_bytes);
  }
  void poison(std::uint32_t rank, std::uint32_t i) { std::ranges::fill(block(rank, i), canary); }
  void look_at_canary(std::uint32_t rank, std::uint32_t i) {
    if (std::ranges::any_of(block(rank, i), [](auto b) { return b != canary; }))
      breach("K2 K3 a free block of rank " + std::to_string(rank) + " was written");
  }
  [[nodiscard]] std::uint32_t take(std::uint32_t rank) {
    auto const i = free_[rank].back();
    free_[rank].pop_back();
    look_at_canary(rank, i);
    return i;
  }
  void give(std::uint32_t rank, std::vector<std::uint32_t>& list) {
    for (auto const i : list) {
      poison(rank, i);
      free_[rank].push_back(i);  // last in, first out
    }
    list.clear();
  }
  [[nodiscard]] static std::byte content(std::uint64_t request, std::uint32_t ordinal,
                                         std::size_t at) {
    return pattern(request * 64 + ordinal, at);
  }

  void boot(std::uint32_t i) {
    auto const name = std::string(1, static_cast<char>('a' + i));
    free_[i].clear();
    for (std::uint32_t b = blocks; b-- > 0;) {
      poison(i, b);
      free_[i].push_back(b);
    }
    ranks_[i] = std::make_unique<Rank>(
        *nodes_.nodes[i]->b10, hub_, name,
        std::span(nodes_.nodes[i]->pool).first(blocks * block_bytes),
        [this] { return nodes_.network->now(); },
        ses::SessionTimes{b10::milliseconds(20), session_limit}, ses::NodeId{++runs_});
    for (std::uint32_t peer = 0; peer < ranks; ++peer)
      if ((peer < 2) != (i < 2) && ranks_[peer])
        ranks_[i]->node.register_peer(std::string(1, static_cast<char>('a' + peer)));
  }
  void kill(std::uint32_t i) {
    ++counts_.kills;
    for (auto& [id, job] : jobs_) {
      if (job.from == i && job.tx) job.tx.reset(), job.sources.clear(), job.computing.clear();
      if (job.to == i && job.rx) job.rx.reset(), job.targets.clear();
    }
    nodes_.kill(i);
    ranks_[i].reset();
    sim_ids_[i] = nodes_.network->next_node();
    nodes_.start(i);
    boot(i);
  }
  [[nodiscard]] bool stopped(std::uint32_t i) const {
    return nodes_.network->stopped(nodes_.nodes[i]->name);
  }
  void turn() {
    nodes_.turn();
    for (std::uint32_t i = 0; i < ranks; ++i)
      if (!stopped(i)) ranks_[i]->node.progress();
  }
  void look_at_gauges() {
    for (auto const& n : nodes_.nodes)
      if (!adds_up(n->b10->metrics())) breach("K6 the gauges of " + n->name + " do not add up");
  }

  void ask() {
    Job job;
    job.id = next_;
    job.from = random_.below(2);
    job.to = sick_pair_ ? job.from + 2 : 2 + random_.below(2);
    if (stopped(job.from) || stopped(job.to)) return;
    auto const name = std::string(1, static_cast<char>('a' + job.from));
    if (!ranks_[job.to]->node.knows(name)) return;
    job.tokens = 1 + random_.below(40);
    auto const count = static_cast<std::uint32_t>((job.tokens + 3) / 4);
    if (free_[job.to].size() < count || free_[job.from].size() < count) return;
    ++next_;
    job.slicer.emplace(b10::session::PrefillSlicer::Options{job.tokens, {{4}}});
    job.asked = nodes_.network->now();
    b10::session::BlockTable table({4}, job.tokens);
    std::vector<ses::SlotId> slots;
    for (std::uint32_t i = 0; i < count; ++i) {
      job.targets.push_back(take(job.to));
      job.sources.push_back(take(job.from));
      slots.push_back(ses::SlotId{job.targets.back()});
    }
    table.place({}, slots);
    job.rx = ranks_[job.to]->node.rx(
        {b10::RequestId{job.id}, ses::ReceiverSliceId{1}, job.tokens, {name}});
    bool const late = random_.chance(1, 4);
    if (late) job.tx = ranks_[job.from]->node.tx({b10::RequestId{job.id}, job.tokens});
    job.rx->receive({{{ses::GroupId{0}, table, {}}}, {}, {}});
    if (!late) job.tx = ranks_[job.from]->node.tx({b10::RequestId{job.id}, job.tokens});
    jobs_.emplace(job.id, std::move(job));
  }

  /// True once nothing of it is left.
  bool work_on(Job& job) {
    if (job.tx && !stopped(job.from)) prefill(job);
    if (job.rx && !stopped(job.to)) decode(job);
    return !job.tx && !job.rx;
  }
  void prefill(Job& job) {
    auto const status = job.tx->status();
    note_end(job.tx_end, status, "sender");
    if (!ended(status)) {
      if (random_.chance(1, 400)) {
        job.disturbed = true;
        (void)job.tx->cancel();
      } else if (job.computed < job.tokens && random_.chance(1, 4)) {
        chunk(job);
      }
    }
    // Computing goes on whatever becomes of the session.
    if (!job.computing.empty() && random_.chance(1, 3)) {
      auto& [event, range] = job.computing.front();
      for (auto i = range.first; i < range.second; ++i)
        for (std::size_t at = 0; at < block_bytes; ++at)
          block(job.from, job.sources[i])[at] = content(job.id, i, at);
      event.fire();
      job.computing.erase(job.computing.begin());
    }
    if (!ended(job.tx->status()) || !job.computing.empty() || job.tx->has_transferring_tasks())
      return;
    if (job.tx->close() != ses::CloseAnswer::closed) return;
    if (job.from == 1 && job.tx->status() == ses::SessionStatus::error)
      healthy_failures_.push_back("request " + std::to_string(job.id) +
                                  ": its sender: " + job.tx->why());
    give(job.from, job.sources);  // a gather that still ran would send the poison
    job.tx.reset();
  }
  void chunk(Job& job) {
    auto const end = std::min<std::uint64_t>(job.tokens, job.computed + 1 + random_.below(16));
    auto const cover = job.slicer->chunk({ses::TokenPos{job.computed}, ses::TokenPos{end}});
    job.computed = end;
    Tx::Slice s;
    s.id = cover.id;
    s.is_last = cover.is_last;
    s.ready = b10::HostEvent::create();
    s.groups.push_back(ses::cut(ses::GroupId{0}, cover.groups[0], [&](auto i) {
      return ses::SlotId{job.sources[b10::to_integer(i)]};
    }));
    job.computing.emplace_back(s.ready, std::pair{b10::to_integer(cover.groups[0].first),
                                                  b10::to_integer(cover.groups[0].end)});
    try {
      job.tx->send(std::move(s));
    } catch (b10::Error const&) {  // it has ended meanwhile
    }
  }
  void decode(Job& job) {
    auto status = job.rx->status();
    if (!ended(status) && random_.chance(1, 400)) {
      job.disturbed = true;
      (void)job.rx->cancel();
      status = job.rx->status();
    }
    if (!job.rx_end && status == ses::SessionStatus::fully_transferred) verify(job);
    note_end(job.rx_end, status, "receiver");
    if (!ended(status)) {
      if (nodes_.network->now() > job.asked + session_limit + slack && !was_stopped_[job.to])
        breach("K4 a receiver has not ended by its deadline");
      return;
    }
    if (!job.rx->take_pages({})) return;
    if (job.rx->close() != ses::CloseAnswer::closed) breach("a session does not close");
    count(job, status);
    give(job.to, job.targets);
    job.rx.reset();
  }
  void verify(Job const& job) {
    for (std::uint32_t i = 0; i < job.targets.size(); ++i)
      for (std::size_t at = 0; at < block_bytes; ++at)
        if (block(job.to, job.targets[i])[at] != content(job.id, i, at))
          return breach("K1 request " + std::to_string(job.id) +
                        " is not exact when it has landed");
  }
  void note_end(std::optional<ses::SessionStatus>& first, ses::SessionStatus now,
                char const* side) {
    if (!ended(now)) {
      if (first) breach(std::string("K5 an end of a ") + side + " was taken back");
      return;
    }
    if (first.value_or(now) != now) breach(std::string("K5 a ") + side + " has ended twice");
    first = now;
  }
  void count(Job const& job, ses::SessionStatus status) {
    if (status == ses::SessionStatus::fully_transferred)
      ++counts_.landed;
    else if (status == ses::SessionStatus::cancelled)
      ++counts_.cancelled;
    else
      ++counts_.failed;
    if (job.from == 1 && !job.disturbed && status != ses::SessionStatus::fully_transferred)
      healthy_failures_.push_back("request " + std::to_string(job.id) + ": " +
                                  std::string(to_string(status)) + ": " + job.rx->why());
  }
  void require_healthy_pair() {
    for (auto const& f : healthy_failures_) breach("K8 " + f);
  }

  void strike() {
    auto const victim = sick_pair_ ? 2 * random_.below(2) : random_.below(ranks);
    auto& node = *nodes_.nodes[victim];
    switch (random_.below(5)) {
      case 0:
        return kill(victim);
      case 1:
        ++counts_.stops;
        was_stopped_[victim] = true;
        nodes_.network->stop_peer(node.name);
        resume_at_[victim] = nodes_.network->now() + b10::microseconds(100 + random_.below(40'000));
        return;
      case 2: {
        constexpr b10::copy::CopyFault faults[] = {
            b10::copy::CopyFault::hold, b10::copy::CopyFault::fail, b10::copy::CopyFault::slow};
        node.copies->add({.fault = faults[random_.below(3)]});
        let_go_at_[victim] = nodes_.network->now() + b10::milliseconds(1 + random_.below(60));
        ++counts_.rules;
        return;
      }
      default: {
        using b10::transport::sim::MessageFault;
        constexpr MessageFault faults[] = {MessageFault::drop,      MessageFault::delay,
                                           MessageFault::duplicate, MessageFault::reorder,
                                           MessageFault::truncate,  MessageFault::fail_post};
        constexpr b10::MessageKind kinds[] = {b10::MessageKind::control, b10::MessageKind::ready,
                                              b10::MessageKind::data, b10::MessageKind::result};
        b10::transport::sim::MessageRule rule{.fault = faults[random_.below(6)],
                                              .kind = kinds[random_.below(4)]};
        rule.from = sim_ids_[victim];
        nodes_.network->add(rule);
        ++counts_.rules;
      }
    }
  }
  /// `all`: nothing goes wrong any more.
  void heal(bool all) {
    auto const now = nodes_.network->now();
    for (std::uint32_t i = 0; i < ranks; ++i) {
      if (all) nodes_.nodes[i]->copies->clear_rules(), nodes_.nodes[i]->copies->release_all();
      if (resume_at_[i] && now >= *resume_at_[i]) {
        nodes_.network->resume_peer(nodes_.nodes[i]->name);
        resume_at_[i].reset();
      }
      if (let_go_at_[i] && now >= *let_go_at_[i]) {
        nodes_.nodes[i]->copies->release_all();
        let_go_at_[i].reset();
      }
    }
  }

  b10::sim::Random random_;
  bool sick_pair_;
  Nodes nodes_;
  std::shared_ptr<InProcess::Hub> hub_ = std::make_shared<InProcess::Hub>();
  b10::sim::NodeId sim_ids_[ranks]{};
  std::unique_ptr<Rank> ranks_[ranks]{};
  std::vector<std::uint32_t> free_[ranks]{};
  std::optional<b10::Instant> resume_at_[ranks]{}, let_go_at_[ranks]{};
  bool was_stopped_[ranks]{};
  std::map<std::uint64_t, Job> jobs_{};
  std::uint64_t next_ = 1, runs_ = 0;
  std::vector<std::string> healthy_failures_{};
  Counts counts_{};
};

}  // namespace support
