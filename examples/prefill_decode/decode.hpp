// The decode process: owns the blocks, grants them, and has requests written to them.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/memory.hpp"
#include "kill.hpp"
#include "kv_cache.hpp"
#include "node.hpp"
#include "places.hpp"
#include "plane.hpp"
#include "raw_pass.hpp"
#include "report.hpp"
#include "verify.hpp"

namespace demo {

class Decode {
 public:
  /// `program`: how to start this program again with the same options.
  Decode(Options options, Places places, std::vector<Phase> phases,
         std::vector<std::string> program)
      : options_(std::move(options)),
        places_(std::move(places)),
        phases_(std::move(phases)),
        program_(std::move(program)),
        model_(load_model(options_.models, options_.model, options_.tp, options_.kv)),
        pool_(PoolLayout(model_, pool_slots(model_, all(), options_.pool_mib)), places_.decode,
              options_.seed),
        cache_(pool_),
        progress_(all().size()),
        raw_(options_.wire),
        key_(random_key()),
        node_(make_node({options_, "decode", key_, places_.decode,
                         options_.kill_peer_at ? std::size_t{4096} : 0})) {
    for (auto const& [offset, bytes] : pool_.layout().extents())
      node_->register_memory(pool_.span(offset, bytes));
  }

  /// Throws if anything is not as it must be.
  Results run() {
    start_prefill();
    introduce();
    for (auto const& phase : phases_) {
      for (std::size_t next = 0; next < phase.requests.size();) {
        make_room();
        auto jobs = next_batch(phase, next);
        prepare(jobs);
        measure_raw(jobs);
        transfer({jobs.begin(), jobs.end()}, phase.concurrency);
        if (options_.stress && memory_before_.empty()) memory_before_ = memory();
      }
    }
    if (options_.kill_peer_at && results_.failed == 0)
      throw std::runtime_error(
          "--kill-peer-at: each request had landed before the kill: raise --tokens or lower "
          "--slice");
    if (options_.stress) memory_after_ = memory();
    if (!options_.corrupt.empty()) corrupt(cache_, options_.corrupt);
    check_pool();
    check_staging();
    progress_.clear();
    return std::move(results_);
  }
  [[nodiscard]] std::uint64_t verified_bytes() const { return verified_; }
  [[nodiscard]] Verdict const& verdict() const { return verdict_; }
  /// What is composed, and what the transport really uses, on both sides. After run().
  [[nodiscard]] std::string explain() {
    peer_->plane().send({Kind::explain});
    return node_->explain() + "\n" + peer_->plane().expect(Kind::explain, b10::seconds(10)).text;
  }
  /// Of decode and prefill, in bytes; empty without --stress.
  [[nodiscard]] auto const& memory_before() const { return memory_before_; }
  [[nodiscard]] auto const& memory_after() const { return memory_after_; }

 private:
  struct Job {
    Request const* request;
    std::uint64_t id;  ///< on the wire; a second try has another
    std::vector<BlockRange> ranges;
    BlockTable table;
    std::uint64_t bytes = 0;
    std::uint64_t spans = 0;
  };
  struct Running {
    Job job;
    b10::Grant grant;
    b10::Instant start;
    b10::Instant overdue;
    std::string why = "nothing was heard of it";
  };
  struct End {
    std::uint64_t id;
    b10::Outcome outcome;
    b10::Instant at;
  };

  [[nodiscard]] std::vector<Request> all() const {
    std::vector<Request> out;
    for (auto const& p : phases_) out.insert(out.end(), p.requests.begin(), p.requests.end());
    return out;
  }

  void start_prefill() {
    peer_ = std::make_unique<PeerProcess>(program_);
    auto const pool = as_remote(pool_.span(0, pool_.layout().bytes()));
    Message hello{Kind::hello,
                  0,
                  {pool.address, static_cast<std::uint64_t>(to_integer(pool.device))},
                  node_->address() + "\n" + key_};
    for (auto const slots : pool_.layout().slots()) hello.numbers.push_back(slots);
    peer_->plane().send(hello);
    (void)peer_->plane().expect(Kind::connected, b10::seconds(60));
    prefill_ = node_->peer("prefill", b10::seconds(2));
    if (!prefill_) throw std::runtime_error("prefill says it has connected, but it has not");
  }
  void introduce() {
    progress_.note(describe(model_, options_.tp, options_.kv));
    progress_.note(places_.text);
    progress_.note("decode process " + std::to_string(getpid()) + " with a pool of " +
                   amount(pool_.layout().bytes()) + ", prefill process " +
                   std::to_string(peer_->pid()) + ", UCX over " + to_string(options_.wire) +
                   ", slices of " + amount(options_.slice));
    auto const composed = node_->explain();
    progress_.note("each composed of " + composed.substr(0, composed.find('\n')));
  }

  /// Old requests make room; what they held is looked at first.
  void make_room() {
    if (!cache_.must_evict()) return;
    check_pool();
    while (cache_.must_evict()) cache_.evict();
  }
  /// As many requests as there are blocks for, but no more than a third of all or than run at
  /// once, so that B10 and raw UCX are measured in turns.
  std::vector<Job> next_batch(Phase const& phase, std::size_t& next) {
    std::vector<Job> jobs;
    std::size_t const most =
        std::max<std::size_t>((phase.requests.size() + 2) / 3, phase.concurrency);
    for (; next < phase.requests.size() && jobs.size() < most; ++next) {
      auto const& request = phase.requests[next];
      auto const held = cache_.held_tokens(request);
      Job job{&request, next_id_, cache_.ranges(model_, request), {}};
      auto table = cache_.take(request, job.id, job.ranges);
      if (!table) break;
      ++next_id_;
      results_.held_tokens += held;
      job.table = std::move(*table);
      for_each_span(pool_.layout(), job.table, [&](auto, auto, auto bytes) {
        job.bytes += bytes;
        ++job.spans;
      });
      jobs.push_back(std::move(job));
    }
    return jobs;
  }
  template <class Jobs>
  void prepare(Jobs const& jobs) {
    progress_.say("prefill computes");
    for (auto const& job : jobs) {
      Message m{Kind::prepare, job.id};
      for (auto const& range : job.ranges)
        m.numbers.insert(m.numbers.end(), {range.first, range.end});
      peer_->plane().send(m);
    }
    peer_->plane().send({Kind::prepared_all});
    (void)peer_->plane().expect(Kind::prepared_all, b10::seconds(120));
  }
  void measure_raw(std::vector<Job> const& jobs) {
    progress_.say("raw UCX, to compare with");
    std::vector<std::uint64_t> sizes;
    std::uint64_t sum = 0;
    for (auto const& job : jobs)
      for (std::uint64_t left = job.bytes; left > 0 && sum < RawPass::bytes_max;
           left -= sizes.back()) {
        sizes.push_back(std::min({left, options_.slice, RawPass::bytes_max - sum}));
        sum += sizes.back();
      }
    if (sizes.empty()) return;
    results_.raw = results_.raw + raw_.receive(peer_->plane(), sizes);
    results_.raw_bytes += sum;
  }

  /// Has the jobs written, up to `concurrency` at once, and waits until all have landed.
  void transfer(std::deque<Job> queue, std::uint64_t concurrency) {
    auto const before = results_.transfer;
    auto since = b10::steady_now();
    auto quiet_at = since;
    while (!queue.empty() || !running_.empty() || reports_due_ > 0 || dying()) {
      while (!killed_ && !queue.empty() && running_.size() < concurrency) {
        launch(std::move(queue.front()));
        queue.pop_front();
      }
      wait_readable(peer_ ? peer_->plane().fd() : -1, ended_->fd(), b10::milliseconds(100));
      while (auto end = ended_->pop()) {
        if (auto again = finish(*end)) queue.push_front(std::move(*again));
        quiet_at = end->at;
        if (end->outcome.ok()) results_.transfer = before + (end->at - since);
      }
      hear_prefill();
      for (auto& end : overdue()) ended_->push(std::move(end));
      if (!peer_ && running_.empty()) {
        replace_prefill(queue);
        since = since + (b10::steady_now() - quiet_at);  // nothing was on its way
      }
      progress_.show(results_);
    }
  }
  /// Whether prefill is being killed; once nothing runs, no kill begins any more.
  [[nodiscard]] bool dying() {
    if (running_.empty()) killer_.reset();
    return killed_;
  }
  void launch(Job job) {
    if (job.bytes == 0) return landed(job, {});  // decode holds all of it
    std::vector<b10::LocalSpan> spans;
    spans.reserve(job.spans);
    for_each_span(pool_.layout(), job.table, [&](auto, auto offset, auto bytes) {
      spans.push_back(pool_.span(offset, bytes));
    });
    auto const now = b10::steady_now();
    auto const limit =
        b10::milliseconds(static_cast<std::int64_t>(options_.deadline_ms)) + b10::seconds(1);
    auto grant = node_->grant(b10::RequestId{job.id}, spans, limit, prefill_);
    grant.on_outcome([ended = ended_, id = job.id](b10::Outcome const& o) {
      ended->push({id, o, b10::steady_now()});
    });
    Message m{Kind::write, job.id};
    put(m.numbers, job.table);
    kill_if_chosen(job);
    auto const id = job.id;
    running_.emplace(id,
                     Running{std::move(job), std::move(grant), now, now + limit + b10::seconds(1)});
    ++reports_due_;
    try {
      peer_->plane().send(m);
    } catch (PeerGone const&) {
      if (!killed_) throw;  // else hear_prefill() notices
    }
  }
  /// The request in the middle; if it lands before it can be killed, the next one.
  void kill_if_chosen(Job const& job) {
    if (!options_.kill_peer_at || results_.failed > 0 ||
        job.request->number <= progress_.total() / 2)
      return;
    std::uint64_t const chunks = (job.bytes + options_.slice - 1) / options_.slice;
    if (*options_.kill_peer_at >= chunks)
      throw std::runtime_error("--kill-peer-at is " + std::to_string(*options_.kill_peer_at) +
                               ", but the request has " + std::to_string(chunks) +
                               " chunks: raise --tokens or lower --slice");
    killer_.reset();
    if (killed_) return;
    killer_ = std::make_unique<Killer>(*node_, *options_.kill_peer_at, peer_->pid(), killed_);
  }

  /// One request has ended here. A job is to be tried again.
  std::optional<Job> finish(End const& end) {
    auto const found = running_.find(end.id);
    if (found == running_.end()) return std::nullopt;
    auto entry = std::move(found->second);
    running_.erase(found);
    if (end.outcome.ok()) {
      landed(entry.job, end.at - entry.start);
      return std::nullopt;
    }
    ++results_.failed;
    auto const line = "request " + std::to_string(entry.job.request->number) + " FAILED after " +
                      ms(end.at - entry.start) + ", " + amount(end.outcome.bytes) + " of " +
                      amount(entry.job.bytes) +
                      " landed: " + std::string(to_string(end.outcome.reason)) + ": " +
                      end.outcome.why;
    auto const quiet = entry.grant.revoke(b10::seconds(5));
    if (!quiet) throw std::runtime_error(line + "; and its blocks are still being written");
    if (!killed_) throw std::runtime_error(line);
    progress_.note(line);
    progress_.note("  its " + std::to_string(entry.job.spans) +
                   " spans are quiescent, so its blocks are free again; nobody else noticed");
    return try_again(std::move(entry.job));
  }
  void landed(Job const& job, b10::Duration took) {
    cache_.landed(*job.request, job.id, job.table);
    ++results_.landed;
    results_.bytes += job.bytes;
    results_.spans += job.spans;
    results_.tokens += job.request->tokens;
    if (job.bytes > 0) results_.latency.push_back(took);
  }
  /// Most likely in the same blocks: the free list is last in, first out.
  Job try_again(Job job) {
    cache_.failed(job.table);
    job.id = next_id_++;
    job.table = cache_.take(*job.request, job.id, job.ranges).value();
    return job;
  }

  void hear_prefill() {
    if (!peer_) return;
    try {
      while (auto m = peer_->plane().receive({})) {
        if (m->kind != Kind::done) throw std::runtime_error("prefill says something unexpected");
        --reports_due_;
        for (std::size_t i = 0; i < results_.stages.size(); ++i)
          results_.stages[i].push_back(
              b10::nanoseconds(static_cast<std::int64_t>(m->numbers.at(1 + i))));
        auto const found = running_.find(m->request);
        if (m->numbers[0] != 0 || found == running_.end()) continue;
        found->second.why =
            "prefill says: " + m->text;  // word of this side's own end may be under way
        found->second.overdue =
            std::min(found->second.overdue, b10::steady_now() + b10::milliseconds(500));
      }
    } catch (PeerGone const&) {
      if (!killed_) throw;
      progress_.note("prefill " + std::to_string(peer_->pid()) + " was killed");
      peer_.reset();
      reports_due_ = 0;
      for (auto& [id, entry] : running_)
        entry.overdue = std::min(entry.overdue, b10::steady_now() + b10::seconds(4));
    }
  }
  [[nodiscard]] std::vector<End> overdue() {
    std::vector<End> out;
    auto const now = b10::steady_now();
    for (auto& [id, entry] : running_) {
      if (now < entry.overdue) continue;
      out.push_back({id, b10::Outcome{.reason = b10::Reason::deadline, .why = entry.why}, now});
    }
    return out;
  }
  /// A fresh process computes what is still to be sent.
  void replace_prefill(std::deque<Job> const& queue) {
    auto const start = b10::steady_now();
    killer_.reset();
    killed_ = false;
    start_prefill();
    progress_.note("prefill " + std::to_string(peer_->pid()) + " is new, connected after " +
                   ms(b10::steady_now() - start));
    prepare(queue);
  }

  void check_pool() {
    progress_.say("verifying the whole pool");
    verdict_ = verify(cache_);
    if (!verdict_.wrong.empty()) throw std::runtime_error("WRONG BYTES: " + verdict_.wrong);
    verified_ = results_.bytes;
  }
  /// Each byte of staging is accounted for, whatever has happened.
  void check_staging() {
    auto const& m = node_->metrics();
    auto const kept = m.staging_quarantined.get() + m.staging_abandoned.get();
    if (m.staging_free.get() + m.staging_leased.get() + kept != m.staging_total.get())
      throw std::runtime_error("the staging gauges do not add up:\n" + node_->explain());
    results_.staging = amount(m.staging_total.get()) + " on decode, of which " + amount(kept) +
                       (kept > 0 ? " are kept from reuse after a failure" : " are in quarantine");
  }
  [[nodiscard]] std::vector<std::uint64_t> memory() {
    peer_->plane().send({Kind::memory});
    auto const theirs = peer_->plane().expect(Kind::memory, b10::seconds(10)).numbers.at(0);
    return {resident_bytes(), theirs};
  }
  static std::string ms(b10::Duration d) { return std::to_string(d.ns / 1'000'000) + " ms"; }

  Options options_;
  Places places_;
  std::vector<Phase> phases_;
  std::vector<std::string> program_;
  Model model_;
  PagedPool pool_;
  KvCache cache_;
  Progress progress_;
  RawPass raw_;
  std::string key_;
  std::shared_ptr<Mailbox<End>> ended_ = std::make_shared<Mailbox<End>>();
  std::unique_ptr<Node> node_;
  std::unique_ptr<PeerProcess> peer_;
  std::optional<b10::PeerId> prefill_;
  std::atomic<bool> killed_{false};
  std::unique_ptr<Killer> killer_;
  std::map<std::uint64_t, Running> running_;
  std::uint64_t reports_due_ = 0;
  std::uint64_t next_id_ = 1;
  Results results_;
  std::uint64_t verified_ = 0;
  Verdict verdict_;
  std::vector<std::uint64_t> memory_before_;
  std::vector<std::uint64_t> memory_after_;
};

}  // namespace demo
