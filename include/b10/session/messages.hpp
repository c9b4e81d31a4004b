#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/geometry.hpp>
#include <b10/session/ids.hpp>
#include <b10/session/message_fields.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::session {

/// One run of one node, drawn at random; names the sender of each message, so that those of a node
/// that has since restarted are told apart.
enum class NodeId : std::uint64_t {};

/// A setting that both sides must agree on.
struct Setting {
  std::string key{};
  std::string value{};
  friend bool operator==(Setting const&, Setting const&) = default;
};

struct GroupShape {
  GroupGeometry geometry{};
  Pool pool{};
  friend bool operator==(GroupShape const&, GroupShape const&) = default;
};

/// What a node tells its peers of itself.
struct NodeShape {
  std::string name{};
  RankPlace place{};
  std::string rank_order{};  ///< e.g. "tp minor": how ranks are numbered
  std::string compat_key{};  ///< the engine's own: model, revision
  std::uint32_t aux_bytes = 0;
  std::vector<Setting> settings{};
  std::vector<GroupShape> groups{};
  friend bool operator==(NodeShape const&, NodeShape const&) = default;
};

struct RegisterPeer {
  bool answer_wanted = false;
  std::string plane_address{};
  std::vector<std::byte> agent_descriptor{};
  NodeShape shape{};
  friend bool operator==(RegisterPeer const&, RegisterPeer const&) = default;
};
struct RefusePeer {
  std::string why{};
  friend bool operator==(RefusePeer const&, RefusePeer const&) = default;
};

/// Blocks wanted of one of the receiver's groups: entry i is the slot of block i or absent.
struct WantedGroup {
  GroupId group{};
  BlockOrdinal start{};
  std::vector<SlotId> slots{};
  friend bool operator==(WantedGroup const&, WantedGroup const&) = default;
};
struct WantedState {
  GroupId group{};
  SlotId slot = absent;
  friend bool operator==(WantedState const&, WantedState const&) = default;
};
struct RequestData {
  RequestId request{};
  ReceiverSliceId slice{};
  std::uint64_t prompt_tokens = 0;
  Duration remaining{};  ///< how long the receiver will wait
  std::vector<WantedGroup> groups{};
  std::vector<WantedState> state{};
  std::optional<RemoteSpan> aux{};
  friend bool operator==(RequestData const&, RequestData const&) = default;
};

/// How a slice ended at the sender, for one receiver.
enum class ResultStatus : std::uint8_t {
  ok,
  unconfirmed,  ///< all was sent, its landing is not known there: the receiver knows
  failed,
  cancelled,
};
struct KvResult {
  RequestId request{};
  std::uint32_t writer_rank = 0;
  SenderSliceId sender_slice{};
  ReceiverSliceId receiver_slice{};
  bool is_last = false;
  ResultStatus status = ResultStatus::ok;
  std::uint64_t bytes = 0;
  std::string why{};
  Reason reason = Reason::none;
  friend bool operator==(KvResult const&, KvResult const&) = default;
};
struct AuxResult {
  RequestId request{};
  ReceiverSliceId receiver_slice{};
  ResultStatus status = ResultStatus::ok;
  std::uint64_t bytes = 0;
  std::string why{};
  Reason reason = Reason::none;
  friend bool operator==(AuxResult const&, AuxResult const&) = default;
};
struct CancelSession {
  RequestId request{};
  bool by_receiver = false;
  friend bool operator==(CancelSession const&, CancelSession const&) = default;
};

using Message =
    std::variant<RegisterPeer, RefusePeer, RequestData, KvResult, AuxResult, CancelSession>;
struct Envelope {
  NodeId from{};
  Message message{};
};

inline constexpr std::uint32_t session_magic = 0x53303142;  // "B10S"
inline constexpr std::uint16_t session_protocol = 1;

namespace detail {

template <class Io>
void fields(Io& io, GroupShape& g) {
  io.number(g.geometry.kind, GroupKind::state);
  io.list(g.geometry.layers, 4, [&](LayerId& l) { io.number(l); });
  io.flag(g.geometry.mla);
  io.number(g.geometry.heads_total);
  io.number(g.geometry.head_size);
  io.number(g.geometry.element_bytes);
  io.number(g.geometry.tokens_per_block);
  io.number(g.geometry.window);
  io.number(g.geometry.order, PageOrder::tokens_first);
  io.list(g.geometry.section_bytes, 8, [&](std::uint64_t& b) { io.number(b); });
  io.number(g.pool.base);
  io.number(g.pool.stride);
  io.number(g.pool.slots);
  io.number(g.pool.device);
}
template <class Io>
void fields(Io& io, RegisterPeer& m) {
  io.flag(m.answer_wanted);
  io.text(m.plane_address);
  io.bytes(m.agent_descriptor);
  io.text(m.shape.name);
  io.number(m.shape.place.tp_size);
  io.number(m.shape.place.tp_rank);
  io.text(m.shape.rank_order);
  io.text(m.shape.compat_key);
  io.number(m.shape.aux_bytes);
  io.list(m.shape.settings, 8, [&](Setting& s) {
    io.text(s.key);
    io.text(s.value);
  });
  io.list(m.shape.groups, 64, [&](GroupShape& g) { fields(io, g); });
}
template <class Io>
void fields(Io& io, RefusePeer& m) {
  io.text(m.why);
}
template <class Io>
void fields(Io& io, RequestData& m) {
  io.number(m.request);
  io.number(m.slice);
  io.number(m.prompt_tokens);
  io.number(m.remaining.ns);
  io.list(m.groups, 10, [&](WantedGroup& g) {
    io.number(g.group);
    io.number(g.start);
    io.list(g.slots, 4, [&](SlotId& s) { io.number(s); });
  });
  io.list(m.state, 6, [&](WantedState& s) {
    io.number(s.group);
    io.number(s.slot);
  });
  bool has_aux = m.aux.has_value();
  io.flag(has_aux);
  if (!has_aux) return;
  if (!m.aux) m.aux.emplace();
  io.number(m.aux->address);
  io.number(m.aux->bytes);
  io.number(m.aux->device);
}
template <class Io>
void fields(Io& io, KvResult& m) {
  io.number(m.request);
  io.number(m.writer_rank);
  io.number(m.sender_slice);
  io.number(m.receiver_slice);
  io.flag(m.is_last);
  io.number(m.status, ResultStatus::cancelled);
  io.number(m.bytes);
  io.text(m.why);
  io.number(m.reason, Reason::shutting_down);
}
template <class Io>
void fields(Io& io, AuxResult& m) {
  io.number(m.request);
  io.number(m.receiver_slice);
  io.number(m.status, ResultStatus::cancelled);
  io.number(m.bytes);
  io.text(m.why);
  io.number(m.reason, Reason::shutting_down);
}
template <class Io>
void fields(Io& io, CancelSession& m) {
  io.number(m.request);
  io.flag(m.by_receiver);
}

template <std::size_t I = 0>
[[nodiscard]] Message message_of_kind(std::size_t kind) {
  if constexpr (I + 1 < std::variant_size_v<Message>)
    if (kind != I) return message_of_kind<I + 1>(kind);
  return Message(std::in_place_index<I>);
}

}  // namespace detail

/// Frame: magic, protocol (2 bytes), kind (2 bytes), sender, fields.
[[nodiscard]] inline std::vector<std::byte> encode(NodeId from, Message message) {
  detail::FieldWriter out;
  auto magic = session_magic;
  auto protocol = session_protocol;
  auto kind = static_cast<std::uint16_t>(message.index());
  out.number(magic);
  out.number(protocol);
  out.number(kind);
  out.number(from);
  std::visit([&](auto& m) { detail::fields(out, m); }, message);
  return std::move(out).take();
}

/// Hostile input: nullopt for anything that is not exactly one message of this protocol. Allocates
/// no more than a small multiple of the input.
[[nodiscard]] inline std::optional<Envelope> decode(std::span<std::byte const> bytes) {
  detail::FieldReader in(bytes);
  std::uint32_t magic = 0;
  std::uint16_t protocol = 0, kind = 0;
  Envelope e;
  in.number(magic);
  in.number(protocol);
  in.number(kind);
  in.number(e.from);
  if (!in.good() || magic != session_magic || protocol != session_protocol ||
      kind >= std::variant_size_v<Message>)
    return std::nullopt;
  e.message = detail::message_of_kind(kind);
  std::visit([&](auto& m) { detail::fields(in, m); }, e.message);
  if (!in.done()) return std::nullopt;
  return e;
}

}  // namespace b10::session
