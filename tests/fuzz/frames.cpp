// Control frames, replies and the header of DATA.
#include "fuzz.hpp"

#include <optional>
#include <type_traits>

#include <b10/core/wire.hpp>

namespace fuzz {
namespace {

using namespace b10;
using namespace b10::wire;

/// What decodes is the one encoding of itself.
template <class Message>
void check(std::optional<Message> const& m, Bytes frame) {
  if (!m) return;
  std::byte out[frame_bytes_max];
  auto again = *m;
  if constexpr (std::is_same_v<Message, Places>)
    again.list = std::span(again.decoded).first(again.count);
  if constexpr (std::is_same_v<Message, Ready>)
    again.places = std::span(again.decoded).first(again.place_count);
  require(same(encode(again, out), frame));
  require(decode_header(frame).has_value());
}

unsigned decode_all(Bytes frame) {
  auto const control = decode_control(frame);
  auto const more = decode_descriptors(frame);
  auto const abort = decode_abort(frame);
  auto const note = decode_note(frame);
  auto const places = decode_places(frame);
  auto const ready = decode_ready(frame);
  auto const result = decode_result(frame);
  check(control, frame);
  check(more, frame);
  check(abort, frame);
  check(note, frame);
  check(places, frame);
  check(ready, frame);
  check(result, frame);
  unsigned const taken = control.has_value() + more.has_value() + abort.has_value() +
                         note.has_value() + places.has_value() + ready.has_value() +
                         result.has_value();
  require(taken <= 1);
  require(taken == 0 || decode_header(frame).has_value());
  return taken;
}

void raw(Bytes in) {
  decode_all(in);
  if (auto const h = decode_data_header(in)) {
    std::byte out[data_header_bytes];
    encode(*h, std::span<std::byte, data_header_bytes>(out));
    require(same(out, in.first(data_header_bytes)));
  }
}

/// The same with a right magic, length and checksum, which no fuzzer guesses.
void sealed(Input in) {
  auto const bit = in.number<std::uint32_t>();
  auto frame = copy_of(in.rest());
  if (frame.size() < wire::detail::header_bytes) return;
  ByteWriter head(frame);
  head.put(wire::detail::frame_magic);
  head.put(protocol_version);
  ByteWriter(std::span(frame).subspan(wire::detail::length_at))
      .put(static_cast<std::uint32_t>(frame.size()));
  wire::detail::seal(frame);
  if (decode_all(frame) == 0) return;
  flip(frame, bit % (8 * frame.size()));  // a checksum of 32 bits misses one in 2^32
  require(decode_all(frame) == 0 && !decode_header(frame));
}

/// Whatever an encoder is given, what it makes is taken.
void encoded(Input in) {
  std::byte out[frame_bytes_max];
  auto const room = std::span(out).first(in.below(sizeof out + 1));
  auto const kind = in.number<std::uint8_t>() % 5;
  Header h;
  h.generation = Generation{in.number<std::uint32_t>()};
  h.transfer = TransferId{in.number<std::uint64_t>()};
  h.attempt = Attempt{in.number<std::uint16_t>()};
  auto const reason = static_cast<Reason>(in.below(reason_count));
  auto const count = in.number<std::uint64_t>();
  if (kind == 3) {
    std::vector<std::uint64_t> list;
    while (in.left() > 0) list.push_back(in.number<std::uint64_t>());
    auto const frame = encode(Places{h, static_cast<std::uint32_t>(count), list, 0, {}}, room);
    auto const m = decode_places(frame);
    require(m.has_value() == !frame.empty());
    if (m) require(std::ranges::equal(std::span(m->decoded).first(m->count), list));
    return;
  }
  if (kind == 4) {
    std::vector<std::uint64_t> list;
    while (in.left() > 0) list.push_back(in.number<std::uint64_t>());
    Ready ready{h, reason, false, static_cast<std::uint32_t>(count), "a text"};
    ready.places = list;
    auto const frame = encode(ready, room);
    auto const m = decode_ready(frame);
    require(m.has_value() == !frame.empty());
    if (m) require(std::ranges::equal(std::span(m->decoded).first(m->place_count), list));
    return;
  }
  auto const text = as_text(in.rest());
  auto const frame =
      kind == 0
          ? encode(Abort{h, reason, text, Unsent{9, static_cast<std::uint32_t>(count), {}}}, room)
      : kind == 1 ? encode(Ready{h, reason, true, static_cast<std::uint32_t>(count), text}, room)
                  : encode(Result{h, reason, count, text}, room);
  if (frame.empty()) return;
  require(frame.size() <= room.size() && decode_all(frame) == 1);
  require(decode_header(frame)->transfer == h.transfer);
}

void run(Bytes bytes) {
  Input in(bytes);
  switch (in.number<std::uint8_t>() % 3) {
    case 0:
      return raw(in.rest());
    case 1:
      return sealed(in);
    default:
      return encoded(in);
  }
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  auto const add = [&](Bytes frame) {
    out.push_back(Seed().number<std::uint8_t>(0).bytes(frame).take());
    out.push_back(Seed().number<std::uint8_t>(1).number<std::uint32_t>(301).bytes(frame).take());
  };
  std::byte frame[frame_bytes_max];
  std::byte const segment[] = {std::byte{8}, std::byte{8}, std::byte{5}, std::byte{1}};
  Header const h{{}, Generation{3}, TransferId{9}, Attempt{1}};
  Control c;
  c.header = h;
  c.request = RequestId{7};
  c.remaining = seconds(1);
  c.bytes = c.slice_bytes = 1024;
  c.spans = c.chunks = 1;
  c.last_segment = true;
  c.segment = segment;
  add(encode(c, frame));
  c.ordered = c.placed = true;
  c.last_segment = false;
  c.segment = {};
  add(encode(c, frame));
  add(encode(Descriptors{h, 2, true, segment}, frame));
  add(encode(Abort{h, Reason::deadline, "the deadline has passed"}, frame));
  add(encode(Abort{h, Reason::cancelled, "not wanted any more", Unsent{9, 2, {6, 7}}}, frame));
  add(encode(Note{h, 1, segment}, frame));
  std::uint64_t const places[] = {4096, 8192, ~std::uint64_t{0}};
  add(encode(Places{h, 5, places, 0, {}}, frame));
  add(encode(Ready{h, Reason::none, false, 2, ""}, frame));
  Ready placed{h, Reason::none, false, 2, ""};
  placed.places = places;
  add(encode(placed, frame));
  add(encode(Ready{h, Reason::refused, true, 0, "no grant"}, frame));
  add(encode(Result{h, Reason::none, 1024, ""}, frame));
  add(encode(Result{h, Reason::copy_failed, 0, "a scatter failed"}, frame));
  std::byte data[data_header_bytes];
  encode(DataHeader{Generation{3}, TransferId{9}, ChunkIndex{1}, 4096, 0},
         std::span<std::byte, data_header_bytes>(data));
  add(data);
  for (unsigned kind = 0; kind < 5; ++kind)
    out.push_back(Seed()
                      .number<std::uint8_t>(2)
                      .number<std::uint32_t>(frame_bytes_max)
                      .number(static_cast<std::uint8_t>(kind))
                      .bytes(Buffer(22, std::byte{1}))
                      .number<std::uint64_t>(64)
                      .bytes(as_byte_view("a text of a peer, sixteen to the list"))
                      .take());
  return out;
}

}  // namespace

Target const frames{"frames", run, seeds};

}  // namespace fuzz
