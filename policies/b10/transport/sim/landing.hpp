#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/transport/sim/model.hpp>
#include <b10/transport/sim/options.hpp>

namespace b10::transport::sim {

/// Tagged messages from their arrival on: who matches what, and how the bytes land. Models what UCX
/// was measured to do: a message that nobody wants waits for ever and meets a later receive of the
/// same tag; a receive that has matched cannot be cancelled, and its bytes go on landing, piece by
/// piece, after cancel and close, for as long as its link lives; a long eager message whose sender
/// dies in the middle never ends.
class Landing : public Timeline::Client {
 public:
  explicit Landing(NetworkOptions const& options)
      : timeline(std::make_shared<Timeline>(options.seed, options.keep_journal)),
        options_(options),
        client_(timeline->join(*this)) {}
  Landing(Landing const&) = delete;
  Landing& operator=(Landing const&) = delete;

  /// What the copy engines of the same simulation are to be given.
  std::shared_ptr<Timeline> const timeline;

  [[nodiscard]] NetworkOptions const& options() const noexcept { return options_; }
  /// Bytes that landed although their receive had been given up.
  [[nodiscard]] std::uint64_t late_bytes() const noexcept { return late_bytes_; }

  // --- For Link; see b10::Transport ---

  void cancel(End& e, Operation& op) {
    auto const it = std::find_if(e.posted.begin(), e.posted.end(),
                                 [&](PostedReceive const& r) { return r.operation == &op; });
    if (it != e.posted.end()) {
      e.posted.erase(it);
      return op.complete(OperationStatus::cancelled, 0, op.tag());
    }
    for (Message& m : messages_)
      if (m.state != Message::State::free && m.receive.operation == &op) m.given_up = true;
  }

  unsigned sink_unexpected(End& e) {
    auto const n = static_cast<unsigned>(e.unexpected.size());
    for (auto const index : e.unexpected) {
      Message& m = messages_[index];
      if (m.send && m.from) complete(*m.from, *m.send, OperationStatus::ok, m.bytes, m.tag);
      release(index);
    }
    e.unexpected.clear();
    return n;
  }

 protected:
  enum class Due : std::uint32_t { message, piece, frame, down, greeting, silence, nothing };

  void schedule(Instant when, Due what, std::uint64_t which, std::uint64_t flow = 0) {
    timeline->at(when, client_, static_cast<std::uint32_t>(what), which, flow);
  }
  [[nodiscard]] Random& random() noexcept { return timeline->random(); }
  [[nodiscard]] Duration latency() noexcept {
    return random().between(options_.latency_min, options_.latency_max);
  }
  [[nodiscard]] std::uint32_t pieces() noexcept {
    return static_cast<std::uint32_t>(
        random().between(std::uint64_t{options_.pieces_min}, std::uint64_t{options_.pieces_max}));
  }
  void note(What what, NodeId node, NodeId other = NodeId::none,
            std::optional<Name> const& name = std::nullopt, std::uint64_t bytes = 0,
            std::uint8_t detail = 0, Tag tag = {}) {
    timeline->journal.note({timeline->now(), what, detail, node, other, name, bytes, tag});
  }
  void note(What what, Message const& m, std::uint64_t bytes) {
    note(what, m.to_node, m.from_node, m.name, bytes, 0, m.tag);
  }
  /// Ends an operation at its node's next progress().
  static void complete(End& e, Operation& op, OperationStatus status, std::uint64_t bytes, Tag tag,
                       std::string_view text = {}) {
    Item item{Item::Type::completion, status};
    item.end = &e;
    item.operation = &op;
    item.bytes = bytes;
    item.tag = tag;
    item.text = text;
    e.node->inbox.push_back(item);
  }

  void message_arrives(std::uint32_t index) {
    Message& m = messages_[index];
    if (!m.to) return vanish(index);
    note(What::arrived, m, m.bytes);
    End& to = *m.to;
    auto const it = std::find_if(to.posted.begin(), to.posted.end(),
                                 [&](PostedReceive const& r) { return r.tag == m.tag; });
    if (it == to.posted.end()) {
      m.state = Message::State::unexpected;
      to.unexpected.push_back(index);
      return note(What::unexpected, m, m.bytes);
    }
    PostedReceive const r = *it;
    to.posted.erase(it);
    match(to, index, r);
  }

  /// Writes the next piece of a message that has matched.
  void piece_lands(std::uint32_t index) {
    Message& m = messages_[index];
    if (!m.to) return vanish(index);
    if (m.doomed || (!m.eager && !m.data && m.copy.empty())) {
      m.state = Message::State::stuck;
      return;
    }
    if (m.from && m.from->node->stopped) {
      m.frozen = true;
      return;
    }
    std::uint64_t const left = m.bytes - m.written;
    std::uint64_t const n = m.pieces == 1 ? left : random().between(std::uint64_t{0}, left);
    write(m, n);
    if (--m.pieces > 0) {
      note(m.given_up ? What::late : What::landing, m, n);
      return schedule(timeline->now() + latency(), Due::piece, index);
    }
    finish(index, n);
  }

  /// What an end still reads or waits for ends with `status`: its link is retired or down.
  void end_sends(End& e, OperationStatus status, std::string_view text) {
    for (auto const& u : e.unanswered) complete(e, *u.operation, status, 0, u.tag, text);
    e.unanswered.clear();
    for (Message& m : messages_) {
      if (m.state == Message::State::free || m.from != &e || !m.send) continue;
      complete(e, *m.send, status, 0, m.tag, text);
      m.send = nullptr;
    }
  }
  /// Rendezvous messages that had matched here end with an error once their sender is known dead.
  void end_orphans(End& e) {
    for (std::uint32_t i = 0; i < messages_.size(); ++i) {
      Message& m = messages_[i];
      bool const orphan = m.state == Message::State::stuck && m.to == &e && !m.eager;
      if (!orphan) continue;
      if (m.receive.operation)
        complete(e, *m.receive.operation, OperationStatus::failed, 0, m.tag, "the peer is gone");
      release(i);
    }
  }
  /// A retired link: some of its receives that have matched complete as cancelled at its next
  /// progress, some never; the bytes of either may still come.
  void give_up_receives(End& e) {
    for (Message& m : messages_) {
      if (m.state == Message::State::free || m.to != &e || !m.receive.buffer) continue;
      m.given_up = true;
      if (m.eager || !m.receive.operation || random().chance(1, 2)) continue;
      complete(e, *m.receive.operation, OperationStatus::cancelled, 0, m.tag, "link retired");
      m.receive.operation = nullptr;
    }
  }
  /// Nothing may read this end's buffers any more. `killed`: in the middle of what it was sending.
  void forget_sender(End& e, bool killed) {
    for (Message& m : messages_) {
      if (m.state == Message::State::free || m.from != &e) continue;
      m.data = nullptr;
      m.send = nullptr;
      m.from = nullptr;
      if (killed && m.state == Message::State::landing) m.doomed = true;
      if (m.frozen) m.state = Message::State::stuck, m.frozen = false;
    }
    e.unanswered.clear();
  }
  /// Nothing may write this end's buffers any more.
  void forget_receiver(End& e) {
    for (std::uint32_t i = 0; i < messages_.size(); ++i) {
      Message& m = messages_[i];
      if (m.state == Message::State::free || m.to != &e) continue;
      m.to = nullptr;
      bool const comes =
          m.state == Message::State::flying || (m.state == Message::State::landing && !m.frozen);
      if (!comes) vanish(i);
    }
    e.posted.clear();
    e.unexpected.clear();
  }
  void thaw(Node const& n) {
    for (std::uint32_t i = 0; i < messages_.size(); ++i) {
      Message& m = messages_[i];
      if (m.state == Message::State::free || !m.frozen || m.from_node != n.id) continue;
      m.frozen = false;
      schedule(timeline->now() + latency(), Due::piece, i);
    }
  }
  template <class Slot>
  static std::uint32_t take(std::deque<Slot>& slots, std::vector<std::uint32_t>& free) {
    if (free.empty()) {
      slots.emplace_back();
      return static_cast<std::uint32_t>(slots.size() - 1);
    }
    auto const index = free.back();
    free.pop_back();
    return index;
  }

  void match(End& to, std::uint32_t index, PostedReceive const& r) {
    Message& m = messages_[index];
    m.receive = r;
    note(What::matched, m, m.bytes);
    m.state = Message::State::landing;
    if (!m.eager && !m.data && m.copy.empty() && m.bytes > 0) {  // its sender is gone
      m.state = Message::State::stuck;
      if (to.broken) end_orphans(to);
      return;
    }
    bool const whole = m.eager && m.bytes < options_.eager_bytes;
    m.pieces = whole ? 1 : pieces();
    if (!whole) return schedule(timeline->now() + latency(), Due::piece, index);
    write(m, m.bytes);
    finish(index, m.bytes);
  }

  void write(Message& m, std::uint64_t n) {
    std::uint64_t const room = m.receive.bytes > m.written ? m.receive.bytes - m.written : 0;
    std::byte const* const from = m.copy.empty() ? m.data : m.copy.data();
    if (auto const fits = std::min(n, room); fits > 0)
      std::memcpy(m.receive.buffer + m.written, from + m.written, fits);
    m.written += n;
    if (m.given_up) late_bytes_ += n;
  }

  void finish(std::uint32_t index, std::uint64_t last_piece) {
    Message& m = messages_[index];
    note(m.given_up ? What::late : What::landed, m, last_piece);
    if (m.receive.operation)
      complete(*m.to, *m.receive.operation,
               m.bytes > m.receive.bytes ? OperationStatus::truncated : OperationStatus::ok,
               m.bytes, m.tag);
    if (m.send && m.from) complete(*m.from, *m.send, OperationStatus::ok, m.bytes, m.tag);
    release(index);
  }

  /// It meets nobody; its sender, if it waits, waits until its link goes down.
  void vanish(std::uint32_t index) {
    Message& m = messages_[index];
    if (m.send && m.from) m.from->unanswered.push_back({m.send, m.tag});
    release(index);
  }
  void release(std::uint32_t index) {
    Message& m = messages_[index];
    auto copy = std::move(m.copy);
    copy.clear();
    m = Message{};
    m.copy = std::move(copy);  // keeps its memory
    free_messages_.push_back(index);
  }

  NetworkOptions const options_;
  std::deque<Message> messages_{};
  std::vector<std::uint32_t> free_messages_{};

 private:
  Timeline::ClientId client_;
  std::uint64_t late_bytes_ = 0;
};

}  // namespace b10::transport::sim
