#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/steady_clock.hpp>
#include <b10/transport.hpp>

namespace b10::transport::loopback {

/// What happens to one message; decided when it is sent.
enum class Fate : std::uint8_t {
  deliver,
  drop,   ///< lost; the sender thinks it is sent
  stall,  ///< it matches a receive, but its bytes come only with Network::release(): a late write
};

/// What a filter looks at.
struct Passing {
  std::string_view from;  ///< address of the sender
  bool control;
  Tag tag;  ///< 0 for control frames
  std::span<std::byte const> bytes;
};

struct Node;
struct End;

/// A tagged message on its way. Short ones carry a copy (eager); long ones point at the sender's
/// buffer until they are matched (rendezvous), as a real network does.
struct Message {
  Tag tag{};
  std::vector<std::byte> copy{};
  std::byte const* data = nullptr;
  std::uint64_t bytes = 0;
  Operation* send = nullptr;  ///< null: already complete for its sender
  End* from = nullptr;
  bool stalled = false;
};

struct PostedReceive {
  Tag tag{};
  std::byte* buffer = nullptr;
  std::uint64_t bytes = 0;
  Operation* operation = nullptr;
};

struct Completion {
  Operation* operation;
  OperationStatus status;
  std::uint64_t bytes;
  Tag tag;
};

/// One end of a link. Everything in it is guarded by the network's mutex.
struct End {
  LinkId id{};
  Node* node = nullptr;
  End* peer = nullptr;  ///< null once the other end is gone
  bool retired = false;
  std::optional<LinkDown> down{};  ///< to be reported
  std::deque<std::vector<std::byte>> controls{};
  std::deque<Message> unexpected{};
  std::vector<PostedReceive> posted{};
  std::vector<std::pair<Message, PostedReceive>> stalled{};
  std::deque<Completion> completions{};
  std::deque<Message> early{};  ///< sent before the other end existed
  std::deque<std::vector<std::byte>> early_controls{};
};

/// The three steps of connecting, so that both sides can refuse and agree on a generation.
struct Greeting {
  enum class Step : std::uint8_t { request, offer, accept, refuse } step{};
  std::weak_ptr<Node> from{};
  ConnectId connect{};
  Hello hello{};
  Generation generation{};
  End* end = nullptr;
  std::string why{};
};

struct Node {
  std::string address{};
  std::deque<Greeting> greetings{};
  std::vector<End*> ends{};
  std::condition_variable changed{};
  bool rung = false;
};

/// Connects the Loopback transports of one process. Thread-safe. With a manual clock, time moves
/// only by advance().
class Network {
 public:
  enum class Clock : std::uint8_t { steady, manual };
  explicit Network(Clock clock = Clock::steady) : manual_(clock == Clock::manual) {}

  [[nodiscard]] Instant now() const noexcept {
    return manual_ ? Instant{time_.load(std::memory_order_relaxed)} : steady_now();
  }
  [[nodiscard]] bool manual() const noexcept { return manual_; }
  void advance(Duration d) noexcept { time_.fetch_add(d.ns, std::memory_order_relaxed); }

  /// Decides the fate of every message from now on; runs under the network's mutex and must not
  /// call back into it.
  void set_filter(std::function<Fate(Passing const&)> filter) {
    std::lock_guard lock(mutex);
    filter_ = std::move(filter);
  }
  /// Lets the bytes of all stalled messages arrive; returns how many really had a buffer to land
  /// in.
  unsigned release() {
    std::lock_guard lock(mutex);
    unsigned landed = 0;
    for (auto& [address, node] : nodes)
      for (End* e : node->ends) {
        for (auto& [m, r] : e->stalled) {
          complete(*e, m, r);
          ++landed;
        }
        e->stalled.clear();
        for (Message& m : e->unexpected) m.stalled = false;
        ring(*node);
      }
    return landed;
  }
  /// Breaks all links of a node, as its death would: each end learns of it at its next progress.
  void cut(std::string const& address) {
    std::lock_guard lock(mutex);
    auto it = nodes.find(address);
    if (it == nodes.end()) return;
    for (End* e : it->second->ends) {
      e->down = LinkDown::lost;
      if (e->peer) unlink(*e, LinkDown::lost);
    }
    ring(*it->second);
  }

  /// Delivers a message to every link of a node as if its peer had sent it.
  void inject(std::string const& address, Tag tag, std::vector<std::byte> bytes) {
    std::lock_guard lock(mutex);
    for (End* e : nodes.at(address)->ends) {
      Message m;
      m.tag = tag;
      m.bytes = bytes.size();
      m.copy = bytes;
      deliver(*e, std::move(m));
      ring(*e->node);
    }
  }

  // --- for Loopback, under the mutex ---
  [[nodiscard]] LinkId next_link() noexcept { return LinkId{++links_}; }
  [[nodiscard]] bool alive(End* end) const {
    for (auto const& [address, node] : nodes)
      if (std::find(node->ends.begin(), node->ends.end(), end) != node->ends.end()) return true;
    return false;
  }
  [[nodiscard]] Fate fate(Passing const& p) { return filter_ ? filter_(p) : Fate::deliver; }
  static void ring(Node& n) {
    n.rung = true;
    n.changed.notify_all();
  }
  /// A message meets a receive, or nobody.
  static void complete(End& e, Message const& m, std::optional<PostedReceive> const& r) {
    if (r) {
      std::uint64_t const n = std::min(m.bytes, r->bytes);
      if (n > 0) std::memcpy(r->buffer, m.data ? m.data : m.copy.data(), n);
      e.completions.push_back(
          {r->operation, m.bytes > r->bytes ? OperationStatus::truncated : OperationStatus::ok,
           m.bytes, m.tag});
    }
    if (m.send && m.from) {
      m.from->completions.push_back({m.send, OperationStatus::ok, m.bytes, m.tag});
      ring(*m.from->node);
    }
  }
  /// A message arrives at an end.
  static void deliver(End& to, Message&& m) {
    auto const it = std::find_if(to.posted.begin(), to.posted.end(),
                                 [&](PostedReceive const& r) { return r.tag == m.tag; });
    if (it == to.posted.end()) {
      to.unexpected.push_back(std::move(m));
      return;
    }
    PostedReceive const r = *it;
    to.posted.erase(it);
    meet(to, std::move(m), r);
  }
  static void meet(End& to, Message&& m, PostedReceive const& r) {
    if (m.stalled)
      to.stalled.emplace_back(std::move(m), r);
    else
      complete(to, m, r);
  }
  static void unlink(End& e, LinkDown how) {
    if (!e.peer) return;
    e.peer->down = e.peer->down ? e.peer->down : how;
    e.peer->peer = nullptr;
    // What this end had offered from its own buffers can no longer be fetched.
    std::erase_if(e.peer->unexpected, [&](Message const& m) { return m.from == &e; });
    std::erase_if(e.peer->stalled,
                  [&](auto const& s) { return s.first.from == &e && s.first.data; });
    ring(*e.peer->node);
    e.peer = nullptr;
  }

  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Node>> nodes;

 private:
  bool manual_;
  std::atomic<std::int64_t> time_{1'000'000'000};
  std::function<Fate(Passing const&)> filter_;
  std::uint64_t links_ = 0;
};

}  // namespace b10::transport::loopback
