#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/session/aux_record.hpp>
#include <b10/session/kv_slice.hpp>
#include <b10/session/session_services.hpp>
#include <b10/session/states.hpp>
#include <b10/session/transfer_agent.hpp>

namespace b10::session {

/// One receiver of a sender's session: its tasks in order, what they own, what it was told. Guarded
/// by its session's lock.
template <TransferAgent A>
class TxLeg {
 public:
  using Slice = KvSlice<typename A::SourceReady>;

  /// Throws Error{invalid_request} if what the peer wants does not fit its own geometry or the
  /// prompt: hostile input.
  TxLeg(SessionServices<A>& services, std::shared_ptr<PeerInfo const> peer, RequestData wanted,
        std::uint64_t prompt_tokens)
      : services_(services),
        peer_(std::move(peer)),
        wanted_(std::move(wanted)),
        since_(services.agent.now()) {
    if (wanted_.prompt_tokens != prompt_tokens)
      refuse("the prompt has " + std::to_string(prompt_tokens) + " tokens here and " +
             std::to_string(wanted_.prompt_tokens) + " at the receiver");
    for (auto const& g : wanted_.groups) take(g);
    for (auto const& s : wanted_.state) require_slot(s.group, s.slot);
    if (wanted_.aux && wanted_.aux->bytes != services_.shape.aux_bytes)
      refuse("an AUX slot of " + std::to_string(wanted_.aux->bytes) + " bytes, records have " +
             std::to_string(services_.shape.aux_bytes));
  }

  [[nodiscard]] PeerInfo const& peer() const noexcept { return *peer_; }
  [[nodiscard]] ReceiverSliceId slice() const noexcept { return wanted_.slice; }
  [[nodiscard]] Instant since() const noexcept { return since_; }
  [[nodiscard]] std::size_t started() const noexcept { return tasks_.size(); }
  [[nodiscard]] bool aux_started() const noexcept { return aux_.has_value(); }
  /// Why a task failed, once one has.
  [[nodiscard]] std::optional<Ending> const& failure() const noexcept { return failure_; }

  /// The receiver has ended a transfer: its cancel is on the way.
  [[nodiscard]] bool withdrawn() const noexcept { return withdrawn_ && !stopped_; }

  /// Admits the next slice and hands it to the agent: from here on it owns the slice's pages.
  void start(Slice const& slice) {
    auto& task = tasks_.emplace_back(Task{slice.id, slice.is_last});
    if (stopped_) {
      task.ownership = Ownership::not_submitted;
      return;
    }
    try {
      Lists lists;
      for (auto const& link : peer_->links) {
        for (auto const& part : slice.groups)
          if (part.group == link.local) add_blocks(lists, link, part);
        if (slice.is_last)
          for (auto const& s : slice.state)
            if (s.group == link.local) add_state(lists, link, s);
      }
      if (slice.is_last) require_covered();
      submit(task, lists, slice.ready);
    } catch (std::exception const& e) {
      fail(task, ending_of(e));
    }
  }
  void start_aux(std::vector<std::byte> const& payload) {
    aux_.emplace(Task{});
    aux_->reported = !wanted_.aux;
    if (!wanted_.aux || stopped_) {
      aux_->ownership = stopped_ ? Ownership::not_submitted : Ownership::done;
      return;
    }
    try {
      aux_record_ = encode_aux(wanted_.request, wanted_.slice, payload, services_.shape.aux_bytes);
      submit(*aux_,
             {
                 {{aux_record_.data(), aux_record_.size()}},
                 {*wanted_.aux},
             },
             {});
    } catch (std::exception const& e) {
      fail(*aux_, ending_of(e));
    }
  }

  /// Takes note of what has ended and tells the receiver, in the order of the slices.
  void poll() {
    for (auto i = open_; i < tasks_.size(); ++i) look(tasks_[i]);
    if (aux_) look(*aux_);
    while (!stopped_ && !failure_ && !withdrawn_ && reported_ < tasks_.size() &&
           tasks_[reported_].result) {
      auto const& t = tasks_[reported_++];
      tell(t.id, t.is_last, *t.result, t.bytes, {});
    }
    while (open_ < tasks_.size() && drained(tasks_[open_].ownership) && open_ < reported_) ++open_;
    if (!stopped_ && !failure_ && !withdrawn_ && aux_ && aux_->result &&
        !std::exchange(aux_->reported, true))
      services_.post(*peer_,
                     AuxResult{wanted_.request, wanted_.slice, *aux_->result, aux_->bytes, {}});
  }

  enum class Tell : std::uint8_t { nothing, failed, cancelled };
  /// Ends it: nothing further is submitted, what is under way is asked to end. The receiver is told
  /// once, with its own slice id.
  void stop(Tell how, Ending const& ending) {
    if (std::exchange(stopped_, true)) return;
    for (auto i = open_; i < tasks_.size(); ++i) stop(tasks_[i]);
    if (aux_) stop(*aux_);
    auto const next = SenderSliceId{static_cast<std::uint32_t>(reported_)};
    if (how == Tell::failed) tell(next, true, ResultStatus::failed, 0, ending);
    if (how == Tell::cancelled) services_.post(*peer_, CancelSession{wanted_.request, false});
  }

  /// Nothing of this receiver's can touch the pages; KV and AUX.
  [[nodiscard]] bool is_drained() const noexcept {
    for (auto i = open_; i < tasks_.size(); ++i)
      if (!drained(tasks_[i].ownership)) return false;
    return !aux_ || drained(aux_->ownership);
  }
  /// All pages of what was started may be recycled, though results may still be due.
  [[nodiscard]] bool sources_released() const {
    for (auto i = open_; i < tasks_.size(); ++i)
      if (!drained(tasks_[i].ownership) &&
          !(tasks_[i].status && tasks_[i].status->sources_released()))
        return false;
    return true;
  }
  [[nodiscard]] bool kv_done() const noexcept { return reported_ == tasks_.size() && !failure_; }
  [[nodiscard]] bool aux_done() const noexcept { return aux_ && aux_->reported && !failure_; }

 private:
  struct Task {
    SenderSliceId id{};
    bool is_last = false;
    Ownership ownership = Ownership::admitted;
    std::optional<typename A::Status> status{};
    std::optional<ResultStatus> result{};
    std::uint64_t bytes = 0;
    bool reported = false;  // AUX
  };
  struct Lists {
    std::vector<LocalSpan> sources{};
    std::vector<RemoteSpan> destinations{};
  };

  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  GroupShape const& remote_group(GroupId id) const {
    auto const& groups = peer_->shape.groups;
    if (to_integer(id) >= groups.size())
      refuse("the receiver names its group " + std::to_string(to_integer(id)) + " of " +
             std::to_string(groups.size()));
    return groups[to_integer(id)];
  }
  void require_slot(GroupId group, SlotId slot) const {
    auto const slots = remote_group(group).pool.slots;
    if (slot != absent && to_integer(slot) >= slots)
      refuse("the receiver names slot " + std::to_string(to_integer(slot)) + " of a pool of " +
             std::to_string(slots));
  }
  void take(WantedGroup const& g) {
    auto const shape = remote_group(g.group).geometry.blocks();
    if (remote_group(g.group).geometry.kind != GroupKind::paged || tables_.count(g.group) > 0)
      refuse("the receiver's blocks of group " + std::to_string(to_integer(g.group)) +
             " come twice, or the group holds state");
    BlockTable table(shape, wanted_.prompt_tokens);
    if (g.slots.size() != table.size())
      refuse("the receiver's table has " + std::to_string(g.slots.size()) + " blocks, " +
             std::to_string(wanted_.prompt_tokens) + " tokens are " + std::to_string(table.size()));
    for (auto const slot : g.slots) require_slot(g.group, slot);
    table.place(BlockOrdinal{0}, g.slots);
    tables_.emplace(g.group, Wanted{std::move(table), g.start, 0});
  }
  void add_pair(Lists& lists, GroupLink const& link, BlockPair pair) const {
    auto const& from = services_.shape.groups[to_integer(link.local)].pool;
    auto const& to = remote_group(link.remote).pool;
    if (to_integer(pair.source) >= from.slots)
      refuse("slot " + std::to_string(to_integer(pair.source)) + " of a pool of " +
             std::to_string(from.slots) + " (group " + std::to_string(to_integer(link.local)) +
             ")");
    auto const source = from.base + to_integer(pair.source) * from.stride;
    auto const destination = to.base + to_integer(pair.destination) * to.stride;
    for (auto const& f : link.sent) {
      lists.sources.push_back(
          {reinterpret_cast<std::byte*>(source + f.source), f.bytes, from.device});
      lists.destinations.push_back({destination + f.destination, f.bytes, to.device});
    }
  }
  void add_blocks(Lists& lists, GroupLink const& link, GroupSlice const& part) {
    auto const it = tables_.find(link.remote);
    if (it == tables_.end()) return;
    auto& wanted = it->second;
    auto const pairs = pair_chunk(part.run(), part.blocks, wanted.table, wanted.start);
    wanted.given += static_cast<std::uint32_t>(pairs.size());
    for (auto const& pair : pairs) add_pair(lists, link, pair);
  }
  void add_state(Lists& lists, GroupLink const& link, StateSlot const& from) {
    for (auto const& to : wanted_.state)
      if (to.group == link.remote && to.slot != absent && from.slot != absent) {
        add_pair(lists, link, {from.slot, to.slot});
        ++state_given_;
      }
  }
  /// A receiver that waits for a block which never comes would take a hole for data.
  void require_covered() const {
    std::uint32_t state_wanted = 0;
    for (auto const& link : peer_->links) {
      for (auto const& s : wanted_.state)
        state_wanted += s.group == link.remote && s.slot != absent;
      auto const it = tables_.find(link.remote);
      if (it == tables_.end()) continue;
      auto const wanted = it->second.table.present(it->second.start);
      if (it->second.given != wanted)
        refuse("the receiver wants " + std::to_string(wanted) + " blocks of its group " +
               std::to_string(to_integer(link.remote)) + ", the slices had " +
               std::to_string(it->second.given) + " of them");
    }
    if (state_wanted != state_given_)
      refuse("the receiver wants " + std::to_string(state_wanted) +
             " state slots, the last slice " + "had " + std::to_string(state_given_));
  }
  void submit(Task& task, Lists const& lists, std::optional<typename A::SourceReady> const& ready) {
    if (lists.sources.empty()) {
      task.ownership = Ownership::done;
      task.result = ResultStatus::ok;
      return;
    }
    task.ownership = Ownership::submitted;
    task.status = services_.agent.submit({.sources = lists.sources,
                                          .destinations = lists.destinations,
                                          .remote = peer_->shape.name,
                                          .request = wanted_.request,
                                          .ready = ready,
                                          .deadline = services_.times.operation});
    for (auto const& s : lists.sources) task.bytes += s.bytes;
    task.status->on_done(services_.wake);
  }
  void fail(Task& task, Ending ending) {
    if (!task.status) task.ownership = Ownership::not_submitted;
    task.result = ResultStatus::failed;
    if (!failure_) failure_ = std::move(ending);
  }
  void look(Task& task) {
    if (task.ownership != Ownership::submitted && task.ownership != Ownership::in_doubt) return;
    auto const outcome = task.status->outcome();
    if (!outcome) return;
    task.ownership = task.status->sources_released() ? Ownership::done : Ownership::in_doubt;
    if (!task.result) {
      if (outcome->ok())
        task.result = ResultStatus::ok;
      else if (outcome->status == Status::unconfirmed)
        task.result = ResultStatus::unconfirmed;
      else if (outcome->status == Status::cancelled)
        task.result = ResultStatus::cancelled, withdrawn_ = !stopped_;
      else if (!stopped_)
        fail(task, {outcome->reason,
                    outcome->why.empty() ? std::string(to_string(outcome->reason)) : outcome->why});
      else
        task.result = ResultStatus::cancelled;
    }
    if (task.ownership == Ownership::done) task.status.reset();
  }
  static void stop(Task& task) {
    if (task.ownership == Ownership::admitted) task.ownership = Ownership::not_submitted;
    if (task.status) task.status->cancel();
  }
  void tell(SenderSliceId id, bool is_last, ResultStatus status, std::uint64_t bytes,
            Ending const& ending) {
    services_.post(
        *peer_, KvResult{wanted_.request, services_.shape.place.tp_rank, id, wanted_.slice, is_last,
                         status, bytes, ending.why, ending.reason});
  }

  struct Wanted {
    BlockTable table;
    BlockOrdinal start{};
    std::uint32_t given = 0;
  };
  SessionServices<A>& services_;
  std::shared_ptr<PeerInfo const> const peer_;
  RequestData const wanted_;
  Instant const since_;
  std::map<GroupId, Wanted> tables_{};
  std::uint32_t state_given_ = 0;
  std::vector<Task> tasks_{};
  std::size_t open_ = 0;      // tasks before it are drained and reported
  std::size_t reported_ = 0;  // tasks whose result the receiver was told
  std::optional<Task> aux_{};
  std::vector<std::byte> aux_record_{};  // read by the transfer until it is drained
  std::optional<Ending> failure_{};
  bool stopped_ = false;
  bool withdrawn_ = false;
};

}  // namespace b10::session
