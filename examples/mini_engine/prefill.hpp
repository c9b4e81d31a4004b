// The prefill executor: computes requests chunk by chunk and sends each chunk while the next one is
// computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <csignal>

#include "channel.hpp"
#include "common/memory.hpp"
#include "composition.hpp"
#include "prefill_job.hpp"

namespace mini {

template <class Composition>
class Prefill {
  using Rank = mini::Rank<Composition>;
  using Session = typename Rank::Node::Tx;
  using Job = PrefillJob<Session>;
  using Stream = typename Composition::Stream;

 public:
  explicit Prefill(Options options)
      : options_(std::move(options)),
        channel_(options_.channel),
        managers_(block_managers<Composition>(options_, options_.seed + 100)) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlive decode
  }

  /// Serves until decode closes the channel.
  void run() {
    try {
      join();
      for (;;) {
        rank_->node().progress(b10::milliseconds(1));
        while (auto m = channel_.receive({})) take(*m);
        while (auto step = ended_->pop()) step_ended(*step);
        for (auto const& t : rank_->timed().take()) transferred(t);
        compute();
        look_after();
      }
    } catch (demo::PeerGone const&) {
    }
  }

 private:
  struct Ended {
    std::uint64_t id;
    Event event;
  };
  static constexpr std::size_t steps_ahead = 2;  ///< the stream never runs dry, and never far ahead

  void join() {
    auto const hello = channel_.expect(Kind::hello, b10::seconds(10));
    auto const line = hello.text.find('\n');
    rank_.emplace(options_, "prefill", hello.text.substr(line + 1), managers_);
    rank_->node().register_peer(hello.text.substr(0, line));
    auto const until = b10::steady_now() + b10::seconds(10);
    while (!rank_->node().knows("decode")) {
      if (b10::steady_now() >= until)
        throw std::runtime_error("decode does not register: " + rank_->node().refusal());
      rank_->node().progress(b10::milliseconds(10));
    }
    channel_.send({Kind::ready});
  }
  void take(Message const& m) {
    if (m.kind == Kind::drain) {
      draining_ = true;
      return;
    }
    auto session =
        rank_->node().tx({b10::RequestId{m.request}, to_order(m).request.tokens, 1, true});
    jobs_.emplace(m.request,
                  std::make_unique<Job>(to_order(m), options_.hash_tokens(), std::move(session),
                                        rank_->node().shape(), managers_));
    queue_.push_back(m.request);
  }

  /// First come, first served; a job that cannot go on lets the next one.
  void compute() {
    for (auto it = queue_.begin(); it != queue_.end() && stream_.pending() < steps_ahead;) {
      auto& job = *jobs_.at(*it);
      if (job.to_be_cancelled()) (void)job.session().cancel();
      bool const over = ses::ended(job.session().status()) || job.stalled() || job.computed();
      if (over || !launch(*it, job)) it = over ? queue_.erase(it) : it + 1;
    }
  }
  /// The next step of a job, and its slice behind it. False if nothing could be done.
  bool launch(std::uint64_t id, Job& job) try {
    if (job.chunks() == 0 && options_.pipelined)
      if (auto prefix = job.early_prefix()) job.session().send(std::move(*prefix));
    auto chunk = job.next_chunk(options_.chunk);
    if (!chunk) return false;
    Step step;
    step.time = b10::microseconds(static_cast<std::int64_t>(chunk->tokens * options_.compute_us));
    for (auto const& [group, page] : chunk->pages)
      step.fills.push_back({&managers_[group].memory(), page});
    step.stamp = std::make_shared<std::atomic<std::int64_t>>(0);
    step.done = [this, id, tokens = chunk->tokens](auto begin, auto end) {
      ended_->push({id, {What::compute, id, begin, end, tokens}});
      rank_->plane().wake();
    };
    job.step_begins();
    auto const stamp = step.stamp;
    auto launched = stream_.launch(std::move(step));
    chunk->slice.ready = {std::move(launched.event), stamp, std::move(launched.owner)};
    bool const last = chunk->slice.is_last;
    if (options_.pipelined)
      job.session().send(std::move(chunk->slice));
    else
      collect(job, std::move(chunk->slice));
    if (last) send_first_token(job);
    return true;
  } catch (b10::Error const&) {
    return false;  // the session has ended meanwhile; look_after() sees to it
  }
  /// Without pipelining all blocks go in one slice, when the last of them is computed.
  void collect(Job& job, typename Session::Slice slice) {
    auto const id = job.session().request();
    auto [it, first] = collected_.try_emplace(id, slice);
    auto& all = it->second;
    if (!first) {
      for (std::size_t g = 0; g < slice.groups.size(); ++g) {
        auto& to = all.groups[g];
        auto const& from = slice.groups[g];
        if (to.blocks.empty())
          to = from;
        else if (!from.blocks.empty()) {
          to.blocks.end = from.blocks.end;
          to.slots.insert(to.slots.end(), from.slots.begin(), from.slots.end());
        }
      }
      all.state = slice.state;
      all.is_last = slice.is_last;
      all.ready = slice.ready;
    }
    if (!all.is_last) return;
    auto const whole = std::move(all);
    collected_.erase(it);
    job.session().send(whole);
  }
  void send_first_token(Job& job) {
    auto const token = job.content().first_token();
    job.session().send_aux(std::as_bytes(std::span(&token, 1)));
  }

  void step_ended(Ended const& step) {
    if (auto const it = jobs_.find(step.id); it != jobs_.end()) it->second->step_ends(step.event);
  }
  void transferred(TransferTimes const& t) {
    auto const it = jobs_.find(to_integer(t.request));
    if (it != jobs_.end())
      it->second->transferred({t.bytes == aux_bytes ? What::aux : What::transfer,
                               to_integer(t.request), t.begin(), t.ended, t.bytes});
  }

  /// Ends what has ended: pages go back as soon as nobody can read or write them, the session when
  /// its outcome is known.
  void look_after() {
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      auto& job = *it->second;
      auto& session = job.session();
      bool const ended = ses::ended(session.status());
      bool const quiet = !job.computing() && session.sources_released();
      if (quiet && (ended || job.computed())) job.release(leak());
      if (!ended || !quiet || session.close() != ses::CloseAnswer::closed) {
        ++it;
        continue;
      }
      for (auto const& t : rank_->timed().take()) transferred(t);
      channel_.send(to_message(it->first, job.report()));
      collected_.erase(session.request());
      std::erase(queue_, it->first);
      it = jobs_.erase(it);
      if (++done_ == memory_after) memory_first_ = demo::resident_bytes();
    }
    if (draining_ && jobs_.empty()) {
      draining_ = false;
      report();
    }
  }
  void report() {
    BlockManager::Audit sum;
    for (auto& m : managers_) {
      auto const audit = m.audit();
      sum.leaked += audit.leaked;
      sum.wrong_bytes += audit.wrong_bytes;
    }
    auto const now = demo::resident_bytes();
    channel_.send({Kind::drained,
                   0,
                   {sum.leaked, sum.wrong_bytes, memory_first_ ? memory_first_ : now, now}});
  }
  [[nodiscard]] bool leak() {
    return options_.fault == "leak" && done_ == 3 && !std::exchange(leaked_, true);
  }

  static constexpr std::uint64_t memory_after = 50;  ///< requests until caches and pools are warm

  Options options_;
  Channel channel_;
  std::vector<BlockManager> managers_;
  std::shared_ptr<demo::Mailbox<Ended>> ended_ = std::make_shared<demo::Mailbox<Ended>>();
  std::optional<Rank> rank_{};
  std::map<std::uint64_t, std::unique_ptr<Job>> jobs_{};
  std::vector<std::uint64_t> queue_{};
  std::map<b10::RequestId, typename Session::Slice> collected_{};
  bool draining_ = false;
  bool leaked_ = false;
  std::uint64_t done_ = 0;
  std::uint64_t memory_first_ = 0;
  Stream stream_{options_};  // last: its thread uses what stands above
};

}  // namespace mini
