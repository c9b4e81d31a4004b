// What comes over the bootstrap socket, and the control messages of a link.
#include "fuzz.hpp"

#include <optional>

#include <b10/transport/ucx/control.hpp>
#include <b10/transport/ucx/handshake.hpp>

namespace fuzz {
namespace {

using namespace b10;
using namespace b10::transport::ucx;

Digest key(unsigned which) {
  Digest d{};
  d[0] = static_cast<std::byte>(which);
  return d;
}

/// A stranger's bytes, cut as a socket may cut them.
void stream(Input in) {
  FrameStream frames;
  std::uint32_t const limits[] = {FrameStream::small_bytes_max, 200, FrameStream::frame_bytes_max};
  auto const limit = limits[in.below(3)];
  frames.allow(limit);
  auto const keyed = in.number<std::uint8_t>() & 1;
  if (keyed) frames.secure(key(1), key(2));
  bool broken = false;
  while (in.left() > 0) {
    auto const piece = in.piece();
    frames.received(piece.first(std::min(piece.size(), frames.room())));
    require(frames.room() <= 4 + std::size_t{limit});
    while (auto const frame = frames.next()) {
      require(!broken && frame->body.size() < limit);
      require(!keyed);  // nobody knows the key
    }
    broken = broken || frames.fault() != FrameStream::Fault::none;
    require(!broken || frames.room() == 0);
  }
}

/// Frames of a peer with the key, of which the wire changes, repeats, drops or swaps one.
void secured(Input in) {
  auto const harm = in.number<std::uint8_t>() % 5;
  auto const where = in.number<std::uint32_t>();
  std::vector<Frame> sent;
  std::vector<Buffer> wire;
  FrameStream from, to;
  from.secure(key(1), key(2));
  to.secure(key(2), key(1));
  to.allow(FrameStream::frame_bytes_max);
  while (in.left() > 0 && sent.size() < 8) {
    Frame f{FrameType{in.number<std::uint8_t>()}, copy_of(in.piece())};
    require(from.put(f.type, f.body));
    wire.push_back(copy_of(from.to_send()));
    from.sent(wire.back().size());
    sent.push_back(std::move(f));
  }
  if (wire.empty()) return;
  std::size_t const victim = where % wire.size();
  std::size_t good = wire.size();  // frames before the harm
  if (harm == 1) {
    flip(wire[victim], where / wire.size() % (8 * wire[victim].size()));
    good = victim;
  } else if (harm == 2) {
    wire.insert(wire.begin() + static_cast<std::ptrdiff_t>(victim), wire[victim]);
    good = victim + 1;
  } else if (harm == 3) {
    wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(victim));
    good = victim;
  } else if (harm == 4 && victim + 1 < wire.size()) {
    std::swap(wire[victim], wire[victim + 1]);
    good = victim;
  }
  std::size_t got = 0;
  for (auto const& bytes : wire) {
    to.received(bytes);
    while (auto const frame = to.next()) {
      require(got < good);
      require(frame->type == sent[got].type && frame->body == sent[got].body);
      ++got;
    }
  }
  require(got == good);
}

template <class M>
void check(Bytes body) {
  auto const m = M::decode(body);
  if (!m) return;
  auto const again = M::decode(m->encode());
  require(again.has_value() && again->encode() == m->encode());
}

void handshake(Bytes body) {
  if (auto const g = Greet::decode(body); g && g->version == protocol_version)
    require(same(g->encode(), body));
  if (auto const a = Accept::decode(body)) require(same(a->encode(), body));
  // Of a hello of another version only the version is kept.
  if (auto const m = Identify::decode(body); m && m->hello.protocol == protocol_version)
    check<Identify>(body);
  if (auto const m = Offer::decode(body); m && m->hello.protocol == protocol_version) {
    check<Offer>(body);
    Hello own;
    own.name = "own";
    auto const next = next_generation(m->floor, own, m->hello);
    auto const theirs = next_generation(m->floor, m->hello, own);
    require(!next || (*next > m->floor && next != theirs));
    require(pair_domain("k", own, m->hello) == pair_domain("k", m->hello, own));
  }
  require(is_plain_text(printable(body)));
}

/// Control messages, the second half of them with something wrong.
void inbox(Input in) {
  ControlInbox to(key(3));
  ShortMac mac(key(3));
  std::uint64_t sequence = 0;
  bool broken = false;
  ucp_am_recv_param_t param{};
  while (in.left() > 0) {
    auto const harm = in.number<std::uint8_t>();
    auto frame = copy_of(in.piece());
    ControlHeader h;
    h.sequence = sequence;
    require(mac(h.sequence, frame, h.code));
    std::size_t header_bytes = sizeof h;
    auto sent = frame;
    if (harm == 1) h.sequence += 1 + in.number<std::uint8_t>();
    if (harm == 2) h.code ^= std::uint64_t{1} << in.below(64);
    if (harm == 3) header_bytes = in.below(sizeof h);
    if (harm == 4 && !sent.empty()) flip(sent, in.number<std::uint16_t>() % (8 * sent.size()));
    if (harm == 5) param.recv_attr = UCP_AM_RECV_ATTR_FLAG_RNDV;
    bool const harmed = (harm >= 1 && harm <= 3) || (harm == 4 && !sent.empty()) || harm == 5;
    (void)ControlInbox::on_message(&to, &h, header_bytes, sent.data(), sent.size(), &param);
    broken = broken || harmed;
    require((to.fault() != nullptr) == broken);
    auto const got = to.next();
    require(got.has_value() == (!broken && sequence > 0));
    if (got) require(same(*got, frame));
    ++sequence;
  }
}

void run(Bytes bytes) {
  Input in(bytes);
  switch (in.number<std::uint8_t>() % 4) {
    case 0:
      return stream(in);
    case 1:
      return secured(in);
    case 2:
      return handshake(in.rest());
    default:
      return inbox(in);
  }
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  Hello hello;
  hello.name = "peer";
  hello.incarnation = {7, 8};
  hello.listen = "127.0.0.1:1";
  hello.slice_bytes = 4096;
  auto const message = [&](Bytes body) {
    out.push_back(Seed().number<std::uint8_t>(2).bytes(body).take());
  };
  Buffer const worker(20, std::byte{3});
  message(Greet{}.encode());
  message(Greet{protocol_version + 1, {}}.encode());
  message(Identify{key(1), seconds(1), hello}.encode());
  message(Offer{seconds(1), Generation{4}, hello, worker}.encode());
  message(Offer{seconds(1), Generation{~0u}, hello, worker}.encode());
  message(Accept{Generation{5}, worker}.encode());

  FrameStream frames;
  frames.put(FrameType::client_greet, Greet{}.encode());
  frames.put(FrameType::heartbeat);
  for (std::uint8_t keyed = 0; keyed < 2; ++keyed)
    out.push_back(Seed()
                      .number<std::uint8_t>(0)
                      .number<std::uint32_t>(0)
                      .number(keyed)
                      .piece(frames.to_send())
                      .take());
  for (std::uint8_t harm = 0; harm < 5; ++harm)
    out.push_back(Seed()
                      .number<std::uint8_t>(1)
                      .number(harm)
                      .number<std::uint32_t>(100 + 1)
                      .number<std::uint8_t>(9)
                      .piece({})
                      .number<std::uint8_t>(7)
                      .piece(as_byte_view("no staging here"))
                      .take());
  for (std::uint8_t harm = 0; harm < 6; ++harm)
    out.push_back(Seed()
                      .number<std::uint8_t>(3)
                      .number<std::uint8_t>(0)
                      .piece({})
                      .number<std::uint8_t>(0)
                      .piece(as_byte_view("frame"))
                      .number(harm)
                      .piece(as_byte_view("another"))
                      .number<std::uint32_t>(5)
                      .take());
  return out;
}

}  // namespace

Target const bootstrap{"bootstrap", run, seeds};

}  // namespace fuzz
