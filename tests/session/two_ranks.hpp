#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <b10/native_plane/in_process.hpp>
#include <b10/session/kv_slice.hpp>
#include <b10/session/prefill_slicer.hpp>
#include <b10/session/session_node.hpp>

#include "session/fake_agent.hpp"

namespace support {

using b10::native_plane::InProcess;
namespace ses = b10::session;

/// Two layers, two heads, blocks of four tokens: slots of 256 bytes.
inline ses::GroupGeometry small_group(std::uint64_t window = 0, std::uint32_t first_layer = 0) {
  ses::GroupGeometry g;
  g.layers = {ses::LayerId{first_layer}, ses::LayerId{first_layer + 1}};
  g.heads_total = 2;
  g.head_size = 4;
  g.element_bytes = 2;
  g.tokens_per_block = 4;
  g.window = window;
  return g;
}
inline ses::GroupGeometry state_group() {
  ses::GroupGeometry g;
  g.kind = ses::GroupKind::state;
  g.layers = {ses::LayerId{100}};
  g.heads_total = 2;
  g.section_bytes = {16, 64};
  return g;
}

inline std::vector<std::byte> payload(std::string const& text) {
  auto const view = b10::as_byte_view(text);
  return {view.begin(), view.end()};
}

inline constexpr std::uint32_t pool_slots = 64;
inline constexpr std::uint32_t aux_bytes = 64;

/// One rank with real memory, last-in-first-out block managers, a fake agent and a node.
struct Rank {
  using Node = ses::SessionNode<FakeAgent, InProcess>;
  using Slice = Node::Tx::Slice;

  Rank(std::shared_ptr<FakeAgent::World> world, std::shared_ptr<InProcess::Hub> hub,
       std::string rank_name, std::vector<ses::GroupGeometry> const& geometries,
       ses::RankPlace place = {}, std::function<void(ses::NodeOptions&)> const& adjust = {})
      : name(rank_name), agent(std::move(world), rank_name), plane({std::move(hub), rank_name}) {
    ses::NodeOptions o;
    o.shape.name = name;
    o.shape.place = place;
    o.shape.aux_bytes = aux_bytes;
    o.times = {b10::seconds(10), b10::seconds(60)};
    for (auto const& g : geometries) {
      auto const stride = ses::slot_bytes(g, place) + 32;  // more than a slot
      memory.emplace_back(stride * pool_slots, std::byte{0xA5});
      o.shape.groups.push_back(
          {g, {reinterpret_cast<std::uint64_t>(memory.back().data()), stride, pool_slots}});
      auto& list = free.emplace_back();
      for (std::uint32_t i = 0; i < pool_slots; ++i) list.push_back(ses::SlotId{i});
    }
    if (adjust) adjust(o);
    shape = o.shape;
    node.emplace(agent, plane, std::move(o));
  }

  [[nodiscard]] ses::SlotId take(std::size_t group = 0) {
    auto const slot = free[group].back();
    free[group].pop_back();
    return slot;
  }
  [[nodiscard]] std::vector<ses::SlotId> take(std::size_t group, std::uint32_t count) {
    std::vector<ses::SlotId> slots;
    while (count-- > 0) slots.push_back(take(group));
    return slots;
  }
  void give(std::vector<ses::SlotId> const& slots, std::size_t group = 0) {
    free[group].insert(free[group].end(), slots.begin(), slots.end());
  }
  [[nodiscard]] std::span<std::byte> slot(ses::SlotId s, std::size_t group = 0) {
    auto const& g = shape.groups[group];
    return {memory[group].data() + b10::to_integer(s) * g.pool.stride,
            ses::slot_bytes(g.geometry, shape.place)};
  }
  void fill(ses::SlotId s, std::uint64_t seed, std::size_t group = 0) {
    auto const bytes = slot(s, group);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((seed * 2654435761u + i * 40503u) >> 7);
  }

  std::string name;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<ses::SlotId>> free;
  std::vector<std::byte> aux = std::vector<std::byte>(aux_bytes);
  FakeAgent agent;
  InProcess plane;
  ses::NodeShape shape;
  std::optional<Node> node;
};

/// A prefill rank "p" and a decode rank "d" that know each other.
struct TwoRanks {
  explicit TwoRanks(std::vector<ses::GroupGeometry> groups = {small_group()},
                    std::function<void(ses::NodeOptions&)> const& adjust = {})
      : p(world, hub, "p", groups, {}, adjust), d(world, hub, "d", groups, {}, adjust) {
    d.node->register_peer("p");
    settle();
  }
  void settle() {
    for (int i = 0; i < 6; ++i) p.node->progress(), d.node->progress();
  }
  void advance(b10::Duration by) {
    {
      std::lock_guard const lock(world->mutex);
      world->now += by.ns;
    }
    settle();
  }
  std::shared_ptr<Rank::Node::Tx> tx(std::uint64_t request, std::uint64_t prompt,
                                     bool aux_wanted = false) {
    return p.node->tx({b10::RequestId{request}, prompt, 1, aux_wanted});
  }
  std::shared_ptr<Rank::Node::Rx> rx(std::uint64_t request, std::uint64_t prompt) {
    return d.node->rx({b10::RequestId{request}, ses::ReceiverSliceId{900}, prompt, {"p"}});
  }
  /// Takes blocks for a whole prompt of group 0 and asks for them.
  std::vector<ses::SlotId> receive(Rank::Node::Rx& session, std::uint64_t prompt,
                                   bool aux_wanted = false, std::uint32_t start = 0) {
    auto const shape = d.shape.groups[0].geometry.blocks();
    ses::BlockTable table(shape, prompt);
    auto slots = d.take(0, table.size() - start);
    table.place(ses::BlockOrdinal{start}, slots);
    ses::RxSlice slice{{{ses::GroupId{0}, table, ses::BlockOrdinal{start}}}, {}, {}};
    if (aux_wanted) slice.aux = b10::LocalSpan{d.aux.data(), d.aux.size()};
    session.receive(std::move(slice));
    return slots;
  }
  /// One request on both ranks, asked for and known to its sender; `slots` receive it.
  struct Request {
    std::shared_ptr<Rank::Node::Tx> tx;
    std::shared_ptr<Rank::Node::Rx> rx;
    std::vector<ses::SlotId> slots;
  };
  Request open(std::uint64_t request, std::uint64_t prompt, bool aux_wanted = false) {
    Request r{tx(request, prompt, aux_wanted), rx(request, prompt), {}};
    r.slots = receive(*r.rx, prompt, aux_wanted);
    settle();
    return r;
  }
  /// The slice of blocks [first, end) of group 0, whose slots are filled with their ordinals.
  Rank::Slice slice(std::uint32_t id, std::uint32_t first, std::uint32_t end, bool last,
                    b10::HostEvent ready = {}) {
    Rank::Slice s;
    s.id = ses::SenderSliceId{id};
    s.is_last = last;
    s.ready = std::move(ready);
    s.groups.push_back(ses::cut(ses::GroupId{0}, {ses::BlockOrdinal{first}, ses::BlockOrdinal{end}},
                                [&](ses::BlockOrdinal i) {
                                  while (source.size() <= b10::to_integer(i))
                                    source.push_back(p.take());
                                  p.fill(source[b10::to_integer(i)], b10::to_integer(i) + seed);
                                  return source[b10::to_integer(i)];
                                }));
    return s;
  }
  /// Blocks of `slots` that hold block `first`, `first` + 1 ... exactly.
  [[nodiscard]] std::size_t exact(std::vector<ses::SlotId> const& slots, std::uint32_t first = 0) {
    std::size_t good = 0;
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      auto const from = p.slot(source.at(first + i)), to = d.slot(slots[i]);
      good += std::memcmp(from.data(), to.data(), to.size()) == 0;
    }
    return good;
  }
  void forget_source() {
    p.give(source);
    source.clear();
    ++seed;
  }

  std::shared_ptr<FakeAgent::World> world = std::make_shared<FakeAgent::World>();
  std::shared_ptr<InProcess::Hub> hub = std::make_shared<InProcess::Hub>();
  Rank p, d;
  std::vector<ses::SlotId> source;  // of group 0, by ordinal
  std::uint64_t seed = 1;
};

}  // namespace support
