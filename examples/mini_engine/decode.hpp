// The decode executor and the front: takes requests in, has prefill compute and send them, verifies
// what has landed, and does the things that go wrong in a real cluster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "channel.hpp"
#include "common/memory.hpp"
#include "composition.hpp"
#include "decode_job.hpp"
#include "tally.hpp"
#include "workload.hpp"

namespace mini {

template <class Composition>
class Decode {
  using Rank = mini::Rank<Composition>;
  using Session = typename Rank::Node::Rx;
  using Job = DecodeJob<Session>;

 public:
  /// `program`: how to start this program again with the same options.
  Decode(Options options, std::vector<std::string> program)
      : options_(std::move(options)),
        program_(std::move(program)),
        work_(workload(options_)),
        managers_(block_managers<Composition>(options_, options_.seed)),
        aux_(options_.concurrency * aux_bytes),
        key_(random_key()),
        rank_(options_, "decode", key_, managers_) {
    std::vector<b10::LocalSpan> regions{{aux_.data(), aux_.size()}};
    for (auto const& m : managers_) regions.push_back(m.region());
    rank_.agent().register_memory(regions);
    for (std::size_t i = 0; i < options_.concurrency; ++i) aux_free_.push_back(i);
    for (auto const& w : work_) queue_.push_back({&w, 1});
    for (std::uint64_t i = 1; i <= options_.kills; ++i)
      kill_after_.push_back(i * work_.size() / (options_.kills + 1));
  }

  [[nodiscard]] Tally run() {
    tally_.requests = work_.size();
    start_prefill();
    auto const start = b10::steady_now();
    while (!queue_.empty() || !jobs_.empty() || reports_due_ > 0) {
      while (launch()) {
      }
      rank_.node().progress(b10::milliseconds(1));
      hear_prefill();
      cancel_some();
      look_after();
      kill_sometimes();
    }
    tally_.took = b10::steady_now() - start;
    drain();
    return std::move(tally_);
  }

 private:
  struct Try {
    Work const* work;
    unsigned number;
  };
  static constexpr unsigned tries_max = 5;
  static constexpr std::uint64_t decoding = 3;       ///< requests that land while one is decoded
  static constexpr std::uint64_t memory_after = 50;  ///< requests until caches and pools are warm

  [[nodiscard]] static std::string random_key() {
    std::random_device random;
    std::string key;
    for (int i = 0; i < 8; ++i) key += std::to_string(random());
    return key;
  }

  void start_prefill() {
    prefill_.emplace(program_);
    prefill_->plane().send({Kind::hello, 0, {}, rank_.plane().address() + "\n" + key_});
    auto const until = b10::steady_now() + b10::seconds(20);
    for (;;) {
      rank_.node().progress(b10::milliseconds(5));  // it registers meanwhile
      if (auto m = prefill_->plane().receive({})) {
        if (m->kind == Kind::ready) return;
        throw std::runtime_error("prefill says something unexpected");
      }
      if (b10::steady_now() >= until)
        throw std::runtime_error("prefill does not come up: " + rank_.node().refusal());
    }
  }

  /// The next request, if there is room for it.
  bool launch() {
    if (queue_.empty() || aux_free_.empty()) return false;
    auto const next = queue_.front();
    auto const& work = *next.work;
    DecodeBlocks blocks(work, options_.hash_tokens(), rank_.node().shape(), managers_);
    if (!blocks.take()) {
      if (jobs_.empty()) throw std::runtime_error("a request does not fit: raise --pool");
      return false;
    }
    queue_.pop_front();
    Job job{&work, next.number, next.number == 1 ? work.fate : Fate::none, std::move(blocks)};
    job.aux_slot = aux_free_.back();
    aux_free_.pop_back();
    job.start = b10::steady_now();
    auto const id = next_id_++;
    job.session = rank_.node().rx({b10::RequestId{id},
                                   ses::ReceiverSliceId{static_cast<std::uint32_t>(id)},
                                   work.request.tokens,
                                   {"prefill"}});
    job.session->receive(job.blocks.wanted({aux_.data() + job.aux_slot * aux_bytes, aux_bytes}));
    auto order = order_of(job);
    prefill_->plane().send(to_message(id, order));
    ++reports_due_;
    jobs_.emplace(id, std::move(job));
    return true;
  }
  [[nodiscard]] Order order_of(Job& job) {
    Order order{job.work->request};
    auto const chunks = (order.request.tokens + options_.chunk - 1) / options_.chunk;
    auto const chunk = static_cast<std::uint64_t>(job.work->moment * static_cast<double>(chunks));
    if (job.fate == Fate::cancelled_by_prefill) order.cancel_at = chunk;
    if (job.fate == Fate::stalled) order.stall_at = chunk;
    if (job.fate == Fate::cancelled_by_decode) {
      auto const expected = static_cast<double>(options_.concurrency * order.request.tokens *
                                                (options_.compute_us + 1) * 1000);
      job.cancel_at =
          job.start + b10::nanoseconds(static_cast<std::int64_t>(job.work->moment * expected));
    }
    return order;
  }

  void hear_prefill() {
    while (auto m = prefill_->plane().receive({})) {
      if (m->kind != Kind::done) throw std::runtime_error("prefill says something unexpected");
      --reports_due_;
      auto const report = to_report(*m);
      tally_.reused_tokens += report.reused_tokens;
      for (auto const& e : report.events) tally_.timeline.add(e);
    }
  }
  void cancel_some() {
    auto const now = b10::steady_now();
    for (auto& [id, job] : jobs_)
      if (!job.cancelled && job.decoding == 0 && now >= job.cancel_at) {
        job.cancelled = true;
        (void)job.session->cancel();
      }
  }

  void look_after() {
    // Without work under way nobody would make room.
    bool const idle = std::none_of(jobs_.begin(), jobs_.end(),
                                   [](auto const& item) { return item.second.session != nullptr; });
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      auto& job = it->second;
      bool over = false;
      if (job.session && ses::ended(job.session->status()))
        over = received(it->first, job);
      else if (!job.session && (idle || tally_.landed >= job.decoding))
        over = decoded(job);
      it = over ? jobs_.erase(it) : std::next(it);
    }
  }
  /// A session has ended. Its pages are ours again when B10 proves that nothing can write them;
  /// true once the job is over.
  bool received(std::uint64_t id, Job& job) {
    if (!job.session->take_pages({})) return false;  // a copy still runs: ask again
    auto const status = job.session->status();
    auto const now = b10::steady_now();
    tally_.timeline.add({What::request, id, job.start, now, job.blocks.bytes_wanted()});
    auto const reason = std::string(to_string(job.session->reason()));
    auto const why = job.session->why();
    bool const token = status == ses::SessionStatus::fully_transferred && is_first_token(job);
    if (job.session->close() != ses::CloseAnswer::closed)
      throw std::logic_error("a session that has ended does not close");
    job.session.reset();
    aux_free_.push_back(job.aux_slot);
    if (status == ses::SessionStatus::fully_transferred) return landed(job, now, token);
    failed(job, status, reason, why);
    job.blocks.drop();
    return true;
  }
  [[nodiscard]] bool is_first_token(Job const& job) const {
    auto const got = job.session->aux();
    auto const token = job.blocks.content().first_token();
    return got && got->size() == sizeof token &&
           std::memcmp(got->data(), &token, sizeof token) == 0;
  }
  bool landed(Job& job, b10::Instant now, bool token_is_right) {
    ++tally_.landed;
    tally_.latency.push_back(now - job.start);
    tally_.tokens += job.work->request.tokens;
    tally_.held_tokens += job.blocks.held_tokens();
    tally_.bytes += job.blocks.bytes_wanted();
    if (!token_is_right) tally_.wrong_bytes += aux_bytes;
    if (options_.fault == "corrupt" && tally_.landed == 3)
      managers_[0].damage(job.blocks.last_block());
    verify(job);
    job.blocks.publish();
    job.decoding = tally_.landed + decoding;
    if (tally_.landed == memory_after) tally_.decode.first = demo::resident_bytes();
    return false;
  }
  /// Its last token is out: what has landed must still be there.
  bool decoded(Job& job) {
    verify(job);
    auto const block = job.blocks.last_block();
    job.blocks.drop();
    if (options_.fault == "late" && !std::exchange(damaged_, true)) managers_[0].damage(block);
    return true;
  }
  void verify(Job& job) {
    auto const begin = b10::steady_now();
    tally_.wrong_bytes += job.blocks.wrong_bytes();
    tally_.verified_bytes += job.blocks.bytes_held();
    tally_.timeline.add({What::verify, job.work->request.number, begin, b10::steady_now(),
                         job.blocks.bytes_held()});
  }
  /// Whatever was done to a request may fail that request, and no other.
  void failed(Job const& job, ses::SessionStatus status, std::string const& reason,
              std::string const& why) {
    ++tally_.failures[reason];
    // Prefill's cancel comes twice, in no order: as the end of a WRITE and as the session's.
    bool const is_cancel = status == ses::SessionStatus::cancelled || reason == "cancelled";
    bool const by_us = is_cancel && (job.cancelled || job.fate == Fate::cancelled_by_prefill);
    bool const in_time = job.fate == Fate::stalled && reason == "deadline";
    if (by_us) {
      ++tally_.cancelled;
    } else if (in_time) {
      ++tally_.gave_up;
    } else {
      if (!job.peer_killed)
        tally_.unexpected.push_back("request " + std::to_string(job.work->request.number) + ": " +
                                    reason + ": " + why);
      if (job.try_number == tries_max) {
        ++tally_.gave_up;
      } else {
        ++tally_.retried;
        queue_.push_front({job.work, job.try_number + 1});
      }
    }
  }

  /// While something is on its way.
  void kill_sometimes() {
    if (kill_after_.empty() || tally_.landed < kill_after_.front()) return;
    auto const moving = std::any_of(jobs_.begin(), jobs_.end(), [](auto const& item) {
      return item.second.session &&
             item.second.session->status() == ses::SessionStatus::transferring;
    });
    if (!moving) return;
    kill_after_.pop_front();
    auto const begin = b10::steady_now();
    prefill_->kill();
    for (auto& [id, job] : jobs_) job.peer_killed |= job.session != nullptr;
    prefill_.reset();
    reports_due_ = 0;
    start_prefill();
    ++tally_.kills;
    tally_.timeline.add({What::kill, tally_.kills, begin, b10::steady_now(), 0});
  }

  void drain() {
    tally_.decode.last = demo::resident_bytes();
    if (tally_.decode.first == 0) tally_.decode.first = tally_.decode.last;
    prefill_->plane().send({Kind::drain});
    auto const theirs = prefill_->plane().expect(Kind::drained, b10::seconds(10)).numbers;
    tally_.leaked_blocks += theirs.at(0);
    tally_.wrong_bytes += theirs.at(1);
    tally_.prefill = {theirs.at(2), theirs.at(3)};
    for (auto& m : managers_) {
      auto const audit = m.audit();
      tally_.leaked_blocks += audit.leaked;
      tally_.wrong_bytes += audit.wrong_bytes;
    }
  }

  Options options_;
  std::vector<std::string> program_;
  std::vector<Work> work_;
  std::vector<BlockManager> managers_;
  std::vector<std::byte> aux_;
  std::vector<std::size_t> aux_free_{};
  std::string key_;
  Rank rank_;
  std::optional<PeerProcess> prefill_{};
  std::deque<Try> queue_{};
  std::deque<std::uint64_t> kill_after_{};
  std::map<std::uint64_t, Job> jobs_{};
  std::uint64_t next_id_ = 1;
  std::uint64_t reports_due_ = 0;
  bool damaged_ = false;
  Tally tally_{};
};

}  // namespace mini
