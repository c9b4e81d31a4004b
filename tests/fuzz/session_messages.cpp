// Messages of the native plane, what a registration of a peer leads to, and AUX records.
#include "fuzz.hpp"

#include <optional>
#include <variant>

#include <b10/session/aux_record.hpp>
#include <b10/session/messages.hpp>
#include <b10/session/peer_map.hpp>

namespace fuzz {
namespace {

using namespace b10;
using namespace b10::session;

GroupShape group(GroupKind kind, PageOrder order, bool mla) {
  GroupShape g;
  g.geometry.kind = kind;
  g.geometry.layers = {LayerId{1}, LayerId{2}, LayerId{7}};
  g.geometry.order = order;
  g.geometry.mla = mla;
  g.geometry.heads_total = mla ? 1 : 8;
  if (kind == GroupKind::state) {
    g.geometry.section_bytes = {64, 24};
  } else {
    g.geometry.head_size = 16;
    g.geometry.element_bytes = 2;
    g.geometry.tokens_per_block = 4;
  }
  g.pool = {1u << 20, 1u << 16, 32, Device::host};
  return g;
}
NodeShape shape(std::uint32_t tp_size, std::uint32_t tp_rank) {
  NodeShape s;
  s.name = "rank";
  s.place = {tp_size, tp_rank};
  s.rank_order = "tp minor";
  s.aux_bytes = 256;
  s.settings = {{"pipelined", "1"}};
  s.groups = {group(GroupKind::paged, PageOrder::heads_first, false),
              group(GroupKind::state, PageOrder::heads_first, false)};
  for (auto& layer : s.groups[1].geometry.layers) layer = LayerId{to_integer(layer) + 100};
  return s;
}

/// Pieces stay inside a slot of either side, and never write a byte of it twice.
void check_fragments(std::vector<Fragment> const& fragments, std::uint64_t source_bytes,
                     std::uint64_t destination_bytes) {
  std::vector<Fragment> sorted(fragments);
  std::ranges::sort(sorted, {}, &Fragment::destination);
  std::uint64_t end = 0;
  for (auto const& f : sorted) {
    require(f.bytes <= source_bytes && f.source <= source_bytes - f.bytes);
    require(f.bytes <= destination_bytes && f.destination <= destination_bytes - f.bytes);
    require(f.destination >= end);
    end = f.destination + f.bytes;
  }
}

void registration(NodeShape const& there) {
  for (auto const& here : {shape(2, 1), shape(4, 2), shape(1, 0)}) {
    if (!incompatibility(here, there).empty()) continue;
    for (auto const& link : link_groups(here, there)) {
      auto const& own = here.groups.at(to_integer(link.local));
      auto const& other = there.groups.at(to_integer(link.remote));
      auto const own_bytes = slot_bytes(own.geometry, here.place);
      auto const bytes = slot_bytes(other.geometry, there.place);
      require(bytes <= other.pool.stride);
      check_fragments(link.sent, own_bytes, bytes);
      check_fragments(link.received, bytes, own_bytes);
    }
  }
}

void message(Bytes in) {
  auto const e = decode(in);
  if (!e) return;
  require(same(encode(e->from, e->message), in));
  if (auto const* m = std::get_if<RegisterPeer>(&e->message)) registration(m->shape);
}

/// A shape that differs from an honest one in a few fields only.
void near_registration(Input in) {
  NodeShape there = shape(1u << in.below(3), 0);
  there.place.tp_rank = static_cast<std::uint32_t>(in.below(9));
  while (in.left() > 0) {
    auto const which = in.number<std::uint8_t>();
    auto& g = there.groups[which % there.groups.size()];
    auto const value = in.number<std::uint32_t>();
    switch (which % 12) {
      case 0:
        g.geometry.layers.push_back(LayerId{value % 128});
        break;
      case 1:
        if (!g.geometry.layers.empty()) g.geometry.layers.pop_back();
        break;
      case 2:
        g.geometry.heads_total = value;
        break;
      case 3:
        g.geometry.head_size = value;
        break;
      case 4:
        g.geometry.tokens_per_block = value;
        break;
      case 5:
        g.pool.stride = value;
        break;
      case 6:
        g.pool.slots = value;
        break;
      case 7:
        g.pool.base = std::uint64_t{value} << 32;
        break;
      case 8:
        g.geometry.section_bytes.push_back(value);
        break;
      case 9:
        there.place.tp_size = value;
        break;
      case 10:
        there.place.tp_rank = value;
        break;
      default:
        there.groups.push_back(g);
        if (there.groups.size() > 8) return;
        break;
    }
  }
  registration(there);
}

void aux(Input in) {
  auto const request = RequestId{in.number<std::uint64_t>()};
  auto const slice = ReceiverSliceId{in.number<std::uint32_t>()};
  auto const bit = in.number<std::uint32_t>();
  auto const record_bytes = in.number<std::uint8_t>();
  auto const payload = in.rest();
  require(decode_aux(request, slice, payload).value_or(Buffer{}).size() <= payload.size());
  if (payload.size() + aux_header_bytes > record_bytes) return;
  auto record = encode_aux(request, slice, payload, record_bytes);
  auto const back = decode_aux(request, slice, record);
  require(back && same(*back, payload));
  require(!decode_aux(RequestId{to_integer(request) + 1}, slice, record));
  flip(record, bit % 128);  // magic, slice and request
  require(!decode_aux(request, slice, record));
}

void run(Bytes bytes) {
  Input in(bytes);
  switch (in.number<std::uint8_t>() % 3) {
    case 0:
      return message(in.rest());
    case 1:
      return near_registration(in);
    default:
      return aux(in);
  }
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  auto const add = [&](Message const& m) {
    out.push_back(Seed().number<std::uint8_t>(0).bytes(encode(NodeId{42}, m)).take());
  };
  RegisterPeer peer;
  peer.answer_wanted = true;
  peer.plane_address = "tcp://h:1";
  peer.agent_descriptor = Buffer(7, std::byte{1});
  peer.shape = shape(2, 0);
  add(peer);
  peer.shape = shape(1, 0);
  peer.shape.groups = {group(GroupKind::paged, PageOrder::tokens_first, true)};
  add(peer);
  add(RefusePeer{"element bytes differs: 2 here, 1 at the peer"});
  RequestData wanted;
  wanted.request = RequestId{17};
  wanted.prompt_tokens = 100;
  wanted.remaining = seconds(2);
  wanted.groups = {{GroupId{1}, BlockOrdinal{2}, {absent, SlotId{5}}}, {GroupId{0}, {}, {}}};
  wanted.state = {{GroupId{2}, SlotId{9}}};
  add(wanted);
  wanted.aux = RemoteSpan{4096, 64, Device{1}};
  add(wanted);
  add(KvResult{RequestId{17}, 1, SenderSliceId{5}, ReceiverSliceId{3}, true, ResultStatus::failed,
               77, "why"});
  add(AuxResult{RequestId{17}, ReceiverSliceId{3}, ResultStatus::ok, 64, ""});
  add(CancelSession{RequestId{17}, true});
  auto near = Seed().number<std::uint8_t>(1).number<std::uint32_t>(1).number<std::uint32_t>(1);
  for (unsigned const which : {0u, 11u, 10u})
    near.number(static_cast<std::uint8_t>(which)).number<std::uint32_t>(103);
  out.push_back(near.take());
  out.push_back(Seed()
                    .number<std::uint8_t>(2)
                    .number<std::uint64_t>(17)
                    .number<std::uint32_t>(3)
                    .number<std::uint32_t>(70)
                    .number<std::uint8_t>(64)
                    .bytes(as_byte_view("first token"))
                    .take());
  return out;
}

}  // namespace

Target const session_messages{"session_messages", run, seeds};

}  // namespace fuzz
