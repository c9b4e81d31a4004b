#include <b10/core/wire.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

using namespace b10;

namespace {

using Bytes = std::vector<std::byte>;

wire::Header const header{MessageKind::control, Generation{0x01020304},
                          TransferId{0xfedc'ba98'7654'3210}, Attempt{7}};

Bytes const segment_bytes = [] {
  Bytes bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}();

template <class Message>
Bytes encoded(Message const& m, std::size_t room = wire::frame_bytes_max) {
  Bytes out(room, std::byte{0xa5});
  auto const frame = wire::encode(m, out);
  REQUIRE((frame.empty() || frame.data() == out.data()));
  out.resize(frame.size());
  return out;
}

Bytes encoded(wire::DataHeader const& m) {
  Bytes out(wire::data_header_bytes, std::byte{0xa5});
  wire::encode(m, std::span<std::byte, wire::data_header_bytes>{out});
  return out;
}

wire::Control control() {
  wire::Control m;
  m.header = header;
  m.request = RequestId{42};
  m.remaining = milliseconds(1500);
  m.bytes = 1ull << 40;
  m.spans = 655'360;
  m.chunks = 77;
  m.slice_bytes = 8u << 20;
  m.ordered = true;
  m.digest = 1;
  m.last_segment = true;
  m.placed = true;
  m.segment = segment_bytes;
  return m;
}
constexpr std::uint64_t some_places[] = {4096, 1ull << 40, 64};
wire::Places places() {
  wire::Places m;
  m.header = header;
  m.first = 7;
  m.list = some_places;
  return m;
}
wire::Descriptors descriptors() { return {header, 9, true, segment_bytes}; }
wire::Abort abort_message() { return {header, Reason::deadline, "2 s were not enough"}; }
wire::Note note() { return {header, 3, segment_bytes}; }
wire::Ready ready() { return {header, Reason::refused, true, 8, "no grant for request 42"}; }
wire::Result result() { return {header, Reason::copy_failed, 1ull << 33, "device 3 is gone"}; }
wire::DataHeader data_header() {
  return {Generation{9}, TransferId{1ull << 50}, ChunkIndex{65'535}, 8u << 20, ~std::uint64_t{0}};
}

bool well_formed(std::string_view text, Bytes const& frame) {
  for (char const c : text) {
    if (is_control_character(c)) return false;
  }
  auto const* const at = reinterpret_cast<std::byte const*>(text.data());
  return text.empty() || (at >= frame.data() && at + text.size() <= frame.data() + frame.size());
}

/// Whether any decoder takes the frame; what it yields must be well-formed.
int accepted(Bytes const& frame) {
  int count = 0;
  if (auto const m = wire::decode_header(frame)) REQUIRE(m->kind <= MessageKind::note);
  if (auto const m = wire::decode_control(frame)) {
    ++count;
    REQUIRE(m->remaining.ns >= 0);
    REQUIRE(m->segment.size() < frame.size());
    REQUIRE(m->header.kind == MessageKind::control);
  }
  if (auto const m = wire::decode_descriptors(frame)) {
    ++count;
    REQUIRE(m->header.kind == MessageKind::descriptors);
  }
  if (auto const m = wire::decode_note(frame)) {
    ++count;
    REQUIRE(m->header.kind == MessageKind::note);
    REQUIRE(m->bytes.size() < frame.size());
  }
  if (auto const m = wire::decode_abort(frame)) {
    ++count;
    REQUIRE(to_integer(m->header.kind) == to_integer(MessageKind::abort));
    REQUIRE(static_cast<std::size_t>(m->reason) < reason_count);
    REQUIRE(well_formed(m->text, frame));
  }
  if (auto const m = wire::decode_ready(frame)) {
    ++count;
    REQUIRE(static_cast<std::size_t>(m->reason) < reason_count);
    REQUIRE(well_formed(m->text, frame));
  }
  if (auto const m = wire::decode_result(frame)) {
    ++count;
    REQUIRE(static_cast<std::size_t>(m->reason) < reason_count);
    REQUIRE(well_formed(m->text, frame));
  }
  if (auto const m = wire::decode_places(frame)) {
    ++count;
    REQUIRE(m->count >= 1);
    REQUIRE(m->count <= wire::places_max);
  }
  if (wire::decode_data_header(frame)) ++count;
  return count;
}

std::vector<Bytes> one_of_each() {
  return {encoded(control()), encoded(descriptors()), encoded(abort_message()),
          encoded(places()),  encoded(note()),        encoded(ready()),
          encoded(result()),  encoded(data_header())};
}

wire::Header with(MessageKind kind) {
  auto h = header;
  h.kind = kind;
  return h;
}

}  // namespace

TEST_CASE("CONTROL comes back as it was sent", "[wire]") {
  auto const frame = encoded(control());
  auto const m = wire::decode_control(frame);
  REQUIRE(m);
  CHECK(m->header == with(MessageKind::control));
  CHECK(m->request == RequestId{42});
  CHECK(m->remaining == milliseconds(1500));
  CHECK(m->bytes == 1ull << 40);
  CHECK(m->spans == 655'360);
  CHECK(m->chunks == 77);
  CHECK(m->slice_bytes == 8u << 20);
  CHECK(m->ordered);
  CHECK(m->digest == 1);
  CHECK(m->last_segment);
  CHECK(
      std::equal(m->segment.begin(), m->segment.end(), segment_bytes.begin(), segment_bytes.end()));
}

TEST_CASE("DESCRIPTORS come back as they were sent", "[wire]") {
  auto const frame = encoded(descriptors());
  auto const m = wire::decode_descriptors(frame);
  REQUIRE(m);
  CHECK(m->header == with(MessageKind::descriptors));
  CHECK(m->sequence == 9);
  CHECK(m->last_segment);
  CHECK(
      std::equal(m->segment.begin(), m->segment.end(), segment_bytes.begin(), segment_bytes.end()));
}

TEST_CASE("ABORT, READY and RESULT come back as they were sent", "[wire]") {
  auto const abort_frame = encoded(abort_message());
  auto const a = wire::decode_abort(abort_frame);
  REQUIRE(a);
  CHECK(a->header == with(MessageKind::abort));
  CHECK(a->reason == Reason::deadline);
  CHECK(a->text == "2 s were not enough");

  auto const ready_frame = encoded(ready());
  auto const r = wire::decode_ready(ready_frame);
  REQUIRE(r);
  CHECK(r->header == with(MessageKind::ready));
  CHECK(r->reason == Reason::refused);
  CHECK(r->stale_generation);
  CHECK(r->window == 8);
  CHECK(r->text == "no grant for request 42");
  CHECK(r->place_count == 0);

  auto const result_frame = encoded(result());
  auto const t = wire::decode_result(result_frame);
  REQUIRE(t);
  CHECK(t->header == with(MessageKind::result));
  CHECK(t->reason == Reason::copy_failed);
  CHECK(t->bytes == 1ull << 33);
  CHECK(t->text == "device 3 is gone");
}

TEST_CASE("READY brings up to 32 places, and no frame more of them", "[wire]") {
  std::vector<std::uint64_t> const places(wire::ready_places_max, 1ull << 63);
  auto m = ready();
  m.places = places;
  auto const frame = encoded(m);
  REQUIRE(frame.size() <= wire::reply_bytes_max);
  auto const r = wire::decode_ready(frame);
  REQUIRE(r);
  CHECK(r->text == "no grant for request 42");
  REQUIRE(r->place_count == places.size());
  CHECK(std::equal(places.begin(), places.end(), r->decoded.begin()));
  std::vector<std::uint64_t> const more(wire::ready_places_max + 1, 5);
  m.places = more;
  std::array<std::byte, wire::reply_bytes_max> out;
  CHECK(wire::encode(m, out).empty());
  auto forged = frame;
  forged[34] = std::byte{33};  // the count
  wire::detail::seal(forged);
  CHECK_FALSE(wire::decode_ready(forged));
}

TEST_CASE("A DATA header comes back as it was sent, whatever follows it", "[wire]") {
  auto message = encoded(data_header());
  CHECK(wire::decode_data_header(message) == data_header());
  message.resize(5000, std::byte{0xff});
  CHECK(wire::decode_data_header(message) == data_header());
}

TEST_CASE("The bytes of a frame are little-endian and the same on every machine", "[wire]") {
  auto const frame = encoded(result());
  char const expected[] =
      "mB10\x01\x00\x02\x00\x3b\x00\x00\x00\x04\x03\x02\x01"
      "\x10\x32\x54\x76\x98\xba\xdc\xfe\x07\x00\x00\x00\xcf\xa4\x64\x9c"
      "\x09\x00\x00\x00\x00\x02\x00\x00\x00\x10\x00"
      "device 3 is gone";
  CHECK(std::string{as_text(frame)} == std::string(expected, sizeof(expected) - 1));
}

TEST_CASE("decode_header says which decoder the rest of a frame needs", "[wire]") {
  CHECK(wire::decode_header(encoded(control())) == with(MessageKind::control));
  CHECK(wire::decode_header(encoded(descriptors())) == with(MessageKind::descriptors));
  CHECK(wire::decode_header(encoded(abort_message())) == with(MessageKind::abort));
  CHECK(wire::decode_header(encoded(ready())) == with(MessageKind::ready));
  CHECK(wire::decode_header(encoded(result())) == with(MessageKind::result));
  CHECK_FALSE(wire::decode_header(encoded(data_header())));
}

TEST_CASE("Each frame is taken by one decoder only", "[wire]") {
  for (auto const& frame : one_of_each()) CHECK(accepted(frame) == 1);
}

TEST_CASE("No frame is taken if it is cut short or has bytes after its end", "[wire]") {
  for (auto const& frame : one_of_each()) {
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
      REQUIRE(accepted(Bytes(frame.begin(), frame.begin() + static_cast<long>(bytes))) == 0);
    }
    auto longer = frame;
    longer.push_back(std::byte{0});
    bool const is_data = wire::decode_data_header(frame).has_value();
    REQUIRE(accepted(longer) == (is_data ? 1 : 0));
  }
}

TEST_CASE("A frame with any one bit changed is refused", "[wire]") {
  for (auto const& frame : one_of_each()) {
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      auto changed = frame;
      changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      // A DATA header is compared with the one that is due, field by field.
      bool const is_data = wire::decode_data_header(frame).has_value();
      REQUIRE(accepted(changed) <= (is_data ? 1 : 0));
    }
  }
}

TEST_CASE("Random bytes behind a valid header are refused or well-formed", "[wire]") {
  std::mt19937_64 random(5);
  auto const frames = one_of_each();
  for (int round = 0; round < 10'000; ++round) {
    auto frame = frames[random() % frames.size()];
    for (auto n = random() % 12; n > 0; --n) {
      frame[32 + random() % (frame.size() - 32)] = static_cast<std::byte>(random());
    }
    wire::detail::seal(frame);
    REQUIRE(accepted(frame) <= 1);
  }
}

TEST_CASE("Another magic, version or kind is refused", "[wire]") {
  auto const frame = encoded(ready());
  auto const refused = [&](std::size_t at, int value) {
    auto changed = frame;
    changed[at] = static_cast<std::byte>(value);
    return accepted(changed) == 0 && !wire::decode_header(changed);
  };
  CHECK(refused(0, 'x'));
  CHECK(refused(4, 2));
  CHECK(refused(5, 1));
  CHECK(refused(6, static_cast<int>(MessageKind::data)));
  CHECK(refused(6, 7));
  CHECK(refused(6, 255));
}

TEST_CASE("Values out of their range are refused", "[wire]") {
  auto ready_frame = encoded(ready());
  auto const decodes = [&](std::size_t at, std::byte value) {
    ready_frame[at] = value;
    wire::detail::seal(ready_frame);
    return wire::decode_ready(ready_frame).has_value();
  };
  CHECK_FALSE(decodes(32, static_cast<std::byte>(reason_count)));
  CHECK(decodes(32, std::byte{0}));
  CHECK_FALSE(decodes(33, std::byte{2}));

  auto late = control();
  late.remaining = nanoseconds(-1);
  CHECK_FALSE(wire::decode_control(encoded(late)));

  auto data = encoded(data_header());
  data.back() = std::byte{1};
  CHECK_FALSE(wire::decode_data_header(data));

  auto forged = encoded(result());
  forged.back() = std::byte{'\n'};
  wire::detail::seal(forged);
  CHECK_FALSE(wire::decode_result(forged));
}

TEST_CASE("Texts are cut to fit, visibly", "[wire]") {
  auto m = result();
  std::string const text(5000, 'x');
  m.text = text;
  auto const frame = encoded(m);
  CHECK(frame.size() == wire::reply_bytes_max);
  auto const back = wire::decode_result(frame);
  REQUIRE(back);
  CHECK(back->text.size() == wire::reply_bytes_max - 43);
  CHECK(back->text.substr(back->text.size() - 4) == "x...");

  auto a = abort_message();
  a.text = text;
  CHECK(encoded(a).size() == wire::frame_bytes_max);
  for (std::size_t room = 36; room < 64; ++room) {
    auto const small = encoded(a, room);
    CHECK(small.size() == room);
    auto const cut = wire::decode_abort(small);
    REQUIRE(cut);
    CHECK(cut->text == std::string(room > 39 ? room - 39 : 0, 'x') +
                           std::string(std::min<std::size_t>(room - 36, 3), '.'));
  }
}

TEST_CASE("Places come back as they were sent, and no more than a frame may hold", "[wire]") {
  auto const frame = encoded(places());
  auto const m = wire::decode_places(frame);
  REQUIRE(m);
  CHECK(m->header == with(MessageKind::places));
  CHECK(m->first == 7);
  REQUIRE(m->count == 3);
  CHECK(std::equal(std::begin(some_places), std::end(some_places), m->decoded.begin()));

  std::vector<std::uint64_t> const most(wire::places_max, 5);
  auto full = places();
  full.list = most;
  REQUIRE(wire::decode_places(encoded(full)));
  std::vector<std::uint64_t> const more(wire::places_max + 1, 5);
  full.list = more;
  CHECK(encoded(full).empty());
  full.list = {};
  CHECK(encoded(full).empty());
  for (int const count : {0, 2, 4, 65, 255}) {  // says more or less than it holds
    auto changed = frame;
    changed[36] = static_cast<std::byte>(count);
    wire::detail::seal(changed);
    CHECK_FALSE(wire::decode_places(changed));
  }
}

TEST_CASE("Control characters in a text leave as blanks", "[wire]") {
  auto m = abort_message();
  m.text = "two\nlines\x7f";
  auto const frame = encoded(m);
  auto const back = wire::decode_abort(frame);
  REQUIRE(back);
  CHECK(back->text == "two lines ");
}

TEST_CASE("What does not fit is not encoded", "[wire]") {
  auto const whole = encoded(control()).size();
  CHECK(encoded(control(), whole).size() == whole);
  for (std::size_t room = 0; room < whole; ++room) REQUIRE(encoded(control(), room).empty());
  CHECK(encoded(ready(), 35).empty());
  CHECK(encoded(result(), 20).empty());
  Bytes const long_segment(wire::frame_bytes_max);
  CHECK(encoded(wire::Descriptors{header, 1, false, long_segment}, 2 * wire::frame_bytes_max)
            .empty());
}

TEST_CASE("A segment as long as the room fills the frame exactly", "[wire]") {
  auto const room = GENERATE(std::size_t{200}, wire::frame_bytes_max);
  Bytes const bytes(wire::frame_bytes_max, std::byte{3});
  auto m = control();
  m.segment = std::span{bytes}.first(wire::control_segment_room(room));
  CHECK(encoded(m, room).size() == room);
  auto d = descriptors();
  d.segment = std::span{bytes}.first(wire::descriptors_segment_room(room));
  CHECK(encoded(d, room).size() == room);
  CHECK(wire::control_segment_room(10) == 0);
  CHECK(wire::descriptors_segment_room(10) == 0);
}

TEST_CASE("A segment may already lie at its place in the frame", "[wire]") {
  auto const before = encoded(control());
  Bytes out(wire::frame_bytes_max);
  auto m = control();
  auto const at = wire::frame_bytes_max - wire::control_segment_room(wire::frame_bytes_max);
  std::copy(segment_bytes.begin(), segment_bytes.end(), out.begin() + static_cast<long>(at));
  m.segment = std::span{out}.subspan(at, segment_bytes.size());
  auto const frame = wire::encode(m, out);
  CHECK(std::equal(frame.begin(), frame.end(), before.begin(), before.end()));
}
