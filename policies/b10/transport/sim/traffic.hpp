#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <b10/transport/sim/landing.hpp>

namespace b10::transport::sim {

/// What ends post: control frames, sends and receives, and the faults that they meet on the way.
class Traffic : public Landing {
 public:
  using Landing::Landing;

  /// Aims a fault at messages from now on. Rules are tried in the order in which they were added.
  void add(MessageRule const& rule) { rules_.push_back(rule); }
  void clear_rules() noexcept { rules_.clear(); }
  /// The n-th receive from now on (1: the next) is made to fail when it is posted.
  void fail_receive(std::uint32_t n) noexcept { refuse_receives_ = n; }

  // --- For Link; see b10::Transport ---

  bool control(End& e, std::span<std::byte const> frame) {
    if (e.retired || e.broken || frame.size() > control_bytes_max) return false;
    auto const name = named(true, frame);
    auto const rule = judge(e, name);
    note_fault(e, rule, name);
    if (rule && rule->fault == MessageFault::fail_post) return false;
    note(What::posted, e.node->id, remote_id(e), name, frame.size());
    if (rule && rule->fault == MessageFault::drop) return true;
    auto const copies = rule && rule->fault == MessageFault::duplicate ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      auto const index = take(frames_, free_frames_);
      Frame& f = frames_[index];
      f.bytes.assign(frame.begin(), frame.end());
      f.from_node = e.node->id;
      f.name = name;
      if (rule) change(f.bytes, *rule);
      launch(e, {true, index, extra(rule, i)}, rule);
    }
    return true;
  }

  void send(End& e, Tag tag, std::byte const* data, std::uint64_t bytes, Operation& op) {
    op.start(tag);
    if (e.retired || e.broken)
      return op.complete(OperationStatus::failed, 0, tag, "the link is down");
    auto const name = named(false, {data, bytes});
    auto const rule = judge(e, name);
    note_fault(e, rule, name);
    if (rule && rule->fault == MessageFault::fail_post)
      return op.complete(OperationStatus::failed, 0, tag, "the post was made to fail");
    note(What::posted, e.node->id, remote_id(e), name, bytes, 0, tag);
    bool const eager = bytes < options_.eager_bytes ||
                       options_.long_messages == LongMessages::eager ||
                       (options_.long_messages == LongMessages::either && random().chance(1, 2));
    if (eager) op.complete(OperationStatus::ok, bytes, tag);
    if (rule && rule->fault == MessageFault::drop) {
      if (!eager) e.unanswered.push_back({&op, tag});
      return;
    }
    bool const twice = rule && rule->fault == MessageFault::duplicate;
    post(e, tag, {data, bytes}, eager ? nullptr : &op, name, rule, 0);
    if (twice) post(e, tag, {data, bytes}, nullptr, name, rule, 1);
  }

  void receive(End& e, Tag tag, std::byte* buffer, std::uint64_t bytes, Operation& op) {
    op.start(tag);
    if (e.retired || !e.node->alive)
      return op.complete(OperationStatus::failed, 0, tag, "the link is retired");
    if (refuse_receives_ > 0 && --refuse_receives_ == 0) {
      note(What::message_fault, e.node->id, NodeId::none, std::nullopt, bytes,
           static_cast<std::uint8_t>(MessageFault::fail_post));
      return op.complete(OperationStatus::failed, 0, tag, "the receive was made to fail");
    }
    note(What::received, e.node->id, remote_id(e), std::nullopt, bytes, 0, tag);
    PostedReceive const r{tag, buffer, bytes, &op};
    for (auto it = e.unexpected.begin(); it != e.unexpected.end(); ++it) {
      if (messages_[*it].tag != tag) continue;
      auto const index = *it;
      e.unexpected.erase(it);
      return match(e, index, r);
    }
    e.posted.push_back(r);
  }

 protected:
  void join(End& e, End& peer) {
    e.peer = &peer;
    e.joined = true;
    for (auto const& early : std::exchange(e.early, {})) fly(e, early, true);
  }
  /// Early things of an end that will never have a peer.
  void forget_early(End& e) {
    for (auto const& early : std::exchange(e.early, {}))
      early.control ? free_frames_.push_back(early.index) : vanish(early.index);
  }
  /// What was sent up to now arrives before this.
  [[nodiscard]] Instant after_all_of(End const& e) noexcept {
    return std::max({timeline->now() + latency(), e.controls_until, e.tagged_until}) + Duration{1};
  }

  std::deque<Frame> frames_{};
  std::vector<std::uint32_t> free_frames_{};

 private:
  using Rule = std::optional<MessageRule>;

  [[nodiscard]] std::optional<Name> named(bool is_control, std::span<std::byte const> bytes) const {
    return options_.namer ? options_.namer(is_control, bytes) : std::nullopt;
  }
  [[nodiscard]] static NodeId remote_id(End const& e) noexcept {
    return e.remote ? e.remote->id : NodeId::none;
  }
  [[nodiscard]] Rule judge(End const& e, std::optional<Name> const& name) {
    for (MessageRule& r : rules_) {
      if (r.times == 0 || (r.from != NodeId::none && r.from != e.node->id)) continue;
      if (r.kind && (!name || name->kind != *r.kind)) continue;
      if (r.chunk && (!name || name->chunk != *r.chunk)) continue;
      if (r.skip > 0) {
        --r.skip;
        continue;
      }
      --r.times;
      return r;
    }
    return std::nullopt;
  }
  void note_fault(End const& e, Rule const& rule, std::optional<Name> const& name) {
    if (!rule) return;
    note(What::message_fault, e.node->id, remote_id(e), name, 0,
         static_cast<std::uint8_t>(rule->fault));
  }
  static void change(std::vector<std::byte>& bytes, MessageRule const& rule) {
    if (rule.fault == MessageFault::truncate)
      bytes.resize(std::min<std::size_t>(bytes.size(), rule.at));
    if (rule.fault == MessageFault::corrupt && !bytes.empty())
      bytes[rule.at / 8 % bytes.size()] ^= std::byte{1} << (rule.at % 8);
  }
  [[nodiscard]] static Duration extra(Rule const& rule, int copy) noexcept {
    if (!rule) return {};
    bool const late = rule->fault == MessageFault::delay || rule->fault == MessageFault::reorder ||
                      (rule->fault == MessageFault::duplicate && copy == 1);
    return late ? rule->delay : Duration{};
  }

  void post(End& e, Tag tag, std::span<std::byte const> bytes, Operation* op,
            std::optional<Name> const& name, Rule const& rule, int copy) {
    auto const index = take(messages_, free_messages_);
    Message& m = messages_[index];
    m.state = Message::State::flying;
    m.eager = op == nullptr;
    m.tag = tag;
    m.name = name;
    m.from = &e;
    m.from_node = e.node->id;
    m.to_node = remote_id(e);
    m.send = op;
    m.data = op ? bytes.data() : nullptr;
    bool const changed =
        rule && (rule->fault == MessageFault::truncate || rule->fault == MessageFault::corrupt);
    if (m.eager || changed) m.copy.assign(bytes.begin(), bytes.end());
    if (changed) change(m.copy, *rule);
    m.bytes = changed ? m.copy.size() : bytes.size();
    launch(e, {false, index, extra(rule, copy)}, rule);
  }
  void launch(End& e, Early const& what, Rule const& rule) {
    if (!e.joined) return e.early.push_back(what);
    bool const alone =
        rule && (rule->fault == MessageFault::reorder || rule->fault == MessageFault::duplicate) &&
        what.extra > Duration{};
    fly(e, what, !alone);
  }
  void fly(End& e, Early const& what, bool in_order) {
    if (!e.peer) {  // the other end is gone
      what.control ? free_frames_.push_back(what.index) : vanish(what.index);
      return;
    }
    auto when = timeline->now() + latency() + what.extra;
    Instant& until = what.control ? e.controls_until : e.tagged_until;
    if (in_order) when = until = std::max(when, until);
    if (what.control)
      frames_[what.index].to = e.peer->id;
    else
      messages_[what.index].to = e.peer;
    auto const flow = static_cast<std::uint64_t>(e.id) * 2 + what.control;
    schedule(when, what.control ? Due::frame : Due::message, what.index, in_order ? flow : 0);
  }

  std::vector<MessageRule> rules_{};
  std::uint32_t refuse_receives_ = 0;
};

}  // namespace b10::transport::sim
