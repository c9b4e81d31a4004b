#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <b10/sim/journal.hpp>
#include <b10/sim/timeline.hpp>
#include <b10/transport.hpp>

/// The parts of a simulated network. Everything is plain data of one thread; network.hpp moves it.
namespace b10::transport::sim {

using b10::sim::Event;
using b10::sim::Name;
using b10::sim::Namer;
using b10::sim::NodeId;
using b10::sim::Random;
using b10::sim::Timeline;
using b10::sim::What;

inline constexpr std::size_t control_bytes_max = 4000;
inline constexpr std::uint32_t no_message = 0xffff'ffff;

struct Node;
struct End;

struct PostedReceive {
  Tag tag{};
  std::byte* buffer = nullptr;
  std::uint64_t bytes = 0;
  Operation* operation = nullptr;  ///< null once it has ended early
};

/// A send whose message has died: pending until its link goes down, as in UCX.
struct Unanswered {
  Operation* operation;
  Tag tag;
};

/// A tagged message on its way, in a slot that is used again.
struct Message {
  enum class State : std::uint8_t {
    free,
    flying,      ///< its arrival is an event to come
    unexpected,  ///< no receive has wanted it yet
    landing,     ///< its next piece is an event to come, unless frozen
    stuck,       ///< the rest will never come
  };
  State state = State::free;
  bool eager = false;     ///< its sender is done with it: `copy` has the bytes
  bool frozen = false;    ///< its sender is stopped in the middle of it
  bool doomed = false;    ///< its sender was killed in the middle of it
  bool given_up = false;  ///< its receive was cancelled or its link retired, and yet it lands
  Tag tag{};
  std::uint64_t bytes = 0;
  std::uint64_t written = 0;
  std::uint32_t pieces = 1;         ///< still to come
  std::byte const* data = nullptr;  ///< rendezvous: the sender's buffer; null once it is gone
  std::vector<std::byte> copy{};    ///< eager, or changed by a fault
  Operation* send = nullptr;        ///< rendezvous: ends when the message has landed
  End* from = nullptr;              ///< null once that end is gone
  End* to = nullptr;                ///< null once that end is gone
  NodeId from_node{}, to_node{};
  std::optional<Name> name{};
  PostedReceive receive{};
};

/// A control frame on its way.
struct Frame {
  std::vector<std::byte> bytes{};
  LinkId to{};
  NodeId from_node{};
  std::optional<Name> name{};
};

/// The steps of connecting, so that both sides can refuse and agree on a generation.
struct Greeting {
  enum class Step : std::uint8_t { request, offer, accept, refuse } step{};
  Node* from = nullptr;
  Node* to = nullptr;
  ConnectId connect{};
  Hello hello{};
  Generation generation{};
  LinkId end{};
  std::string why{};
};

/// Something that progress() is going to tell its node.
struct Item {
  enum class Type : std::uint8_t { none, completion, control, down, greeting } type = Type::none;
  OperationStatus status{};
  LinkDown down{};
  std::uint32_t index = 0;  ///< of a frame or greeting
  End* end = nullptr;
  Operation* operation = nullptr;
  std::uint64_t bytes = 0;
  Tag tag{};
  std::string_view text{};  ///< static storage
};

/// What one end has posted before the other end existed.
struct Early {
  bool control;
  std::uint32_t index;
  Duration extra;
};

/// One end of a link; owned by its Link.
struct End {
  LinkId id{};
  Node* node = nullptr;
  Node* remote = nullptr;
  End* peer = nullptr;  ///< null until both have joined, and once the other end is gone
  bool joined = false;
  bool retired = false;
  bool broken = false;       ///< nothing can be posted any more
  bool down_coming = false;  ///< the notice is on its way
  bool down_told = false;    ///< and has come
  bool peer_told = false;    ///< that this end has left
  std::vector<PostedReceive> posted{};
  std::vector<std::uint32_t> unexpected{};  ///< messages, in the order of arrival
  std::vector<Unanswered> unanswered{};
  std::vector<Early> early{};
  Instant controls_until{};  ///< when the latest control frame arrives: none overtakes it
  Instant tagged_until{};    ///< the same of tagged messages
};

struct Node {
  NodeId id{};
  std::string address{};
  bool alive = true;
  bool stopped = false;
  std::uint32_t stops = 0;
  std::uint32_t greetings_lost = 0;  ///< of those to come
  Duration clock_ahead{};            ///< of the common time
  std::vector<End*> ends{};
  std::vector<Item> inbox{};
  std::size_t told = 0;  ///< items before this have been
};

/// What can go wrong with one message.
enum class MessageFault : std::uint8_t {
  drop,       ///< lost; an eager sender thinks that it was sent
  delay,      ///< late, and so is everything behind it
  duplicate,  ///< comes twice
  reorder,    ///< late, and overtaken
  truncate,   ///< comes short
  corrupt,    ///< one bit is flipped
  fail_post,  ///< the post itself fails
};
inline constexpr std::string_view message_fault_names[] = {
    "drop", "delay", "duplicate", "reorder", "truncate", "corrupt", "fail_post"};

/// Aims a fault at messages. A message meets the first rule that fits it.
struct MessageRule {
  MessageFault fault{};
  std::optional<MessageKind> kind{};  ///< needs a Namer; none: any
  std::optional<ChunkIndex> chunk{};
  NodeId from = NodeId::none;  ///< none: any
  std::uint32_t skip = 0;      ///< so many that fit pass unharmed first
  std::uint32_t times = 1;
  Duration delay = microseconds(500);  ///< delay, reorder; duplicate: of the second
  std::uint64_t at = 0;                ///< truncate: bytes that are left; corrupt: which bit
};

}  // namespace b10::transport::sim
