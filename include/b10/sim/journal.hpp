#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/sim/random.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::sim {

/// What a message says of itself; the simulator only asks a Namer and never decodes.
struct Name {
  MessageKind kind{};
  TransferId transfer{};
  ChunkIndex chunk{};
};
/// Tells what a message is; null as long as nobody has given one. See name_messages.hpp.
using Namer = std::optional<Name> (*)(bool control, std::span<std::byte const> bytes) noexcept;

/// What happens in a simulation, in the order in which a transfer meets it, then the faults.
enum class What : std::uint8_t {
  connect_posted,
  link_up,
  link_down,
  posted,      ///< a message leaves its sender; kind says which
  arrived,     ///< it is at the receiver: a control frame waits for progress(), a message matches
  unexpected,  ///< no receive wanted it
  matched,
  landing,   ///< a piece of it has been written, not the last
  landed,    ///< all of it, and its receive has ended
  late,      ///< a piece was written although its receive had been given up
  received,  ///< a receive was posted
  gather_started,
  gather_moving,
  gather_ended,
  scatter_started,
  scatter_moving,
  scatter_ended,
  message_fault,  ///< `detail`: sim::MessageFault
  copy_fault,     ///< `detail`: copy::CopyFault; `bytes`: copy::Direction
  stopped,
  resumed,
  killed,
  cut,
  clock_jumped,
};
inline constexpr std::string_view what_names[] = {
    "connect posted", "link up",        "link down",     "posted",       "arrived",
    "unexpected",     "matched",        "landing",       "landed",       "late write",
    "receive posted", "gather started", "gather moving", "gather ended", "scatter started",
    "scatter moving", "scatter ended",  "message fault", "copy fault",   "stopped",
    "resumed",        "killed",         "cut",           "clock jumped"};
inline constexpr std::size_t what_count = std::size(what_names);
static_assert(what_count == static_cast<std::size_t>(What::clock_jumped) + 1);

inline constexpr std::string_view kind_names[] = {"CONTROL",     "READY", "RESULT", "DATA",
                                                  "DESCRIPTORS", "ABORT", "PLACES"};

/// Names a simulated node: 0, 1, ... in the order of their making.
enum class NodeId : std::uint16_t { none = 0xffff };

struct Event {
  Instant at{};
  What what{};
  std::uint8_t detail = 0;  ///< which fault
  NodeId node = NodeId::none;
  NodeId other = NodeId::none;  ///< of a message: where it goes to, or comes from
  std::optional<Name> name{};
  std::uint64_t bytes = 0;  ///< of link_up: the generation
  Tag tag{};                ///< of a tagged message
};

/// Watches a simulation. Called in the middle of things: it must not call back into it.
class Observer {
 public:
  virtual void saw(Event const& event) = 0;

 protected:
  ~Observer() = default;
};

/// The log of one simulation. Its hash tells whether two runs were the same, event by event; the
/// events themselves are kept on demand only.
class Journal {
 public:
  explicit Journal(bool keep) : keep_(keep) {}

  void note(Event const& e) {
    auto const add = [this](std::uint64_t x) { hash_ = (hash_ ^ x) * 0x9fb21c651e98df25u; };
    add(static_cast<std::uint64_t>(e.at.ns));
    add(std::uint64_t{static_cast<std::uint8_t>(e.what)} << 40 | std::uint64_t{e.detail} << 32 |
        std::uint64_t{to_integer(e.node)} << 16 | to_integer(e.other));
    add(e.bytes ^ to_integer(e.tag));
    if (e.name)
      add(to_integer(e.name->transfer) ^
          Random::mix(std::uint64_t{to_integer(e.name->chunk)} << 8 | to_integer(e.name->kind)));
    hash_ ^= hash_ >> 29;
    ++count_;
    if (keep_) events_.push_back(e);
    if (observer) observer->saw(e);
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::vector<Event> const& events() const noexcept { return events_; }

  Observer* observer = nullptr;

 private:
  bool keep_;
  std::uint64_t hash_ = 0x2545f4914f6cdd1du;
  std::uint64_t count_ = 0;
  std::vector<Event> events_{};
};

/// "  1.000213 s  node 0 to 1  posted DATA 2 of transfer 14, 576 bytes"
[[nodiscard]] inline std::string to_string(Event const& e) {
  auto text = std::to_string((e.at.ns - 1'000'000'000) / 1000) + " us  node " +
              (e.node == NodeId::none ? "-" : std::to_string(to_integer(e.node)));
  if (e.other != NodeId::none) text += " to " + std::to_string(to_integer(e.other));
  text += "  " + std::string(what_names[static_cast<std::size_t>(e.what)]);
  if (e.what == What::message_fault || e.what == What::copy_fault)
    text += " " + std::to_string(e.detail);
  if (e.name)
    text += " " + std::string(kind_names[to_integer(e.name->kind)]) + " " +
            std::to_string(to_integer(e.name->chunk)) + " of transfer " +
            std::to_string(to_integer(e.name->transfer));
  if (e.bytes > 0) text += ", " + std::to_string(e.bytes) + " bytes";
  return text;
}

}  // namespace b10::sim
