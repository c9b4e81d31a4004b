// One WRITE by the reference's protocol over Loopback, by B10 or written by hand against the same
// transport with the same messages, all in one thread. For a tool that counts instructions
// (bench/instructions/count.py): what B10 costs for each chunk beyond a program that cannot do
// anything else. Bytes are checked either way.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/core/wire.hpp>
#include <b10/transceiver.hpp>

namespace {

using namespace b10;
using transport::Loopback;

constexpr std::uint64_t slice_bytes = 16 << 10;  // above eager_bytes: rendezvous, as with UCX
constexpr unsigned depth = 4;
constexpr auto limit = seconds(60);

using Bytes = std::vector<std::byte>;
using Network = std::shared_ptr<Loopback::Network>;

// --- by B10 --------------------------------------------------------------------------------------

using Node = Transceiver<staging::Host<slicing::Pipelined<slice_bytes, depth>>, tag::Hashed,
                         completion::CopyEvent, quarantine::Ttl<120>, Loopback>;

Node::Config config(char const* name, Network const& network) {
  Node::Config c;
  c.name = name;
  c.staging.buffer_bytes = slice_bytes * depth;
  c.max_in_flight_ops = depth;
  c.progress = Progress::manual;
  c.transport.network = network;
  c.transport.address = name;
  return c;
}

void by_b10(Network const& network, Bytes const& kv, Bytes& pool) {
  Node sender(config("sender", network)), receiver(config("receiver", network));
  receiver.register_memory({pool.data(), pool.size()});
  auto const connecting = sender.begin_connect("receiver", limit);
  while (!connecting.done()) sender.progress(), receiver.progress();
  LocalSpan const to{pool.data(), pool.size()};
  LocalSpan const from{const_cast<std::byte*>(kv.data()), kv.size()};
  RemoteSpan const there = as_remote(to);
  Grant const grant = receiver.grant(RequestId{7}, {&to, 1}, limit);
  Transfer const transfer = sender.write(*connecting.peer(), {.request = RequestId{7},
                                                              .sources = {&from, 1},
                                                              .destinations = {&there, 1},
                                                              .deadline = limit});
  while (!transfer.outcome()) sender.progress(), receiver.progress();
  if (!transfer.outcome()->ok()) throw std::runtime_error(transfer.outcome()->why);
}

// --- by hand -------------------------------------------------------------------------------------

Hello hello(char const* name, std::uint64_t seed) {
  Hello h;
  h.name = name;
  h.incarnation = {seed, ~seed};
  h.slice_bytes = slice_bytes;
  return h;
}

/// One chunk on its way: staging with room for the header, and its message.
struct Slot {
  Operation operation{};
  Bytes staging = Bytes(wire::data_header_bytes + slice_bytes);
  std::uint32_t chunk = 0;
};

/// What both ranks do: one link, four kinds of messages, a deadline looked at once a turn.
class Rank {
 public:
  Rank(char const* name, std::uint64_t seed, Network const& network)
      : transport_({network, name}, hello(name, seed)), until_(transport_.now() + limit) {}

  // What the transport calls.
  [[nodiscard]] Generation last_generation(Hello const&, PairDomain) const noexcept { return {}; }
  [[nodiscard]] std::string refuse(Hello const&, std::string_view) const { return {}; }
  void on_link(Loopback::Link&& link, LinkInfo const& info, ConnectId) {
    link_.emplace(std::move(link));
    info_ = info;
  }
  void on_connect_failed(ConnectId, std::string_view why) {
    throw std::runtime_error(std::string(why));
  }
  void on_link_down(LinkId, LinkDown, std::string_view) noexcept { down_ = true; }
  void on_control(LinkId, std::span<std::byte const> frame) {
    control_.assign(frame.begin(), frame.end());
  }

  void turn() {
    transport_.progress(*this);
    if (down_ || transport_.now() > until_) throw std::runtime_error("the other rank has gone");
  }
  [[nodiscard]] bool linked() const { return link_.has_value(); }
  void connect(std::string_view address) { transport_.connect(ConnectId{1}, address, until_); }

 protected:
  static constexpr TransferId id{2};

  [[nodiscard]] Tag tag(MessageKind kind, std::uint32_t chunk = 0) const {
    return tag::Hashed{}.tag({info_.domain, info_.generation, id, ChunkIndex{chunk}, kind});
  }
  [[nodiscard]] std::uint32_t chunks(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>((bytes + slice_bytes - 1) / slice_bytes);
  }
  [[nodiscard]] static std::uint64_t bytes_of(std::uint32_t chunk, std::uint64_t all) {
    return std::min<std::uint64_t>(slice_bytes, all - chunk * slice_bytes);
  }
  static void require_ok(Operation const& op) {
    if (op.status() != OperationStatus::ok) throw std::runtime_error("a message has failed");
  }
  [[nodiscard]] wire::DataHeader header(std::uint32_t chunk, std::uint64_t bytes) const {
    return {info_.generation, id, ChunkIndex{chunk}, bytes, 0};
  }

  Loopback transport_;
  Instant until_;
  std::optional<Loopback::Link> link_{};
  LinkInfo info_{};
  Bytes control_{};
  bool down_ = false;
  std::array<Slot, depth> slots_{};
};

/// What CONTROL says.
struct Asked {
  std::uint64_t address;
  std::uint64_t bytes;
};

class HandSender : public Rank {
 public:
  using Rank::Rank;

  void write(Bytes const& kv, Bytes& pool) {
    kv_ = kv;
    link_->receive(tag(MessageKind::ready), &ready_, 1, ready_op_);
    link_->receive(tag(MessageKind::result), &result_, 1, result_op_);
    Asked const asked{reinterpret_cast<std::uintptr_t>(pool.data()), pool.size()};
    if (!link_->control(std::as_bytes(std::span(&asked, 1))))
      throw std::runtime_error("CONTROL was not posted");
  }
  /// True when RESULT has come.
  bool advance() {
    turn();
    if (!ready_op_.done()) return false;
    for (Slot& s : slots_) {
      if (s.operation.pending()) continue;
      if (s.operation.done()) require_ok(s.operation), s.operation.reset();
      if (next_ < chunks(kv_.size())) send(s, next_++);
    }
    return result_op_.done() && result_ == std::byte{1};
  }

 private:
  void send(Slot& s, std::uint32_t chunk) {
    auto const bytes = bytes_of(chunk, kv_.size());
    LocalSpan const from{const_cast<std::byte*>(kv_.data()) + chunk * slice_bytes, bytes};
    copy::Memcpy{}.gather({{&from, 1}, 0, bytes}, s.staging.data() + wire::data_header_bytes,
                          event_);
    wire::encode(header(chunk, bytes), std::span<std::byte, wire::data_header_bytes>(
                                           s.staging.data(), wire::data_header_bytes));
    link_->send(tag(MessageKind::data, chunk), s.staging.data(), wire::data_header_bytes + bytes,
                s.operation);
  }

  std::span<std::byte const> kv_{};
  std::uint32_t next_ = 0;
  std::byte ready_{};
  std::byte result_{};
  Operation ready_op_{};
  Operation result_op_{};
  copy::Memcpy::Event event_{};
};

class HandReceiver : public Rank {
 public:
  HandReceiver(char const* name, std::uint64_t seed, Network const& network, Bytes& pool)
      : Rank(name, seed, network), pool_(pool) {}

  void advance() {
    turn();
    if (!asked_ && !control_.empty()) start();
    if (!asked_) return;
    for (Slot& s : slots_) {
      if (!s.operation.done()) continue;
      take(s);
      s.operation.reset();
      if (next_ < chunks(asked_->bytes)) receive(s, next_++);
    }
    if (landed_ < chunks(asked_->bytes) || answered_) return;
    link_->send(tag(MessageKind::result), &yes_, 1, result_op_);
    answered_ = true;
  }

 private:
  void start() {
    Asked asked{};
    if (control_.size() != sizeof asked) throw std::runtime_error("CONTROL is not understood");
    std::memcpy(&asked, control_.data(), sizeof asked);
    auto const base = reinterpret_cast<std::uintptr_t>(pool_.data());
    if (asked.address < base || asked.bytes > pool_.size() ||
        asked.address - base > pool_.size() - asked.bytes)
      throw std::runtime_error("CONTROL asks for memory that is not registered");
    asked_ = asked;
    for (Slot& s : slots_)
      if (next_ < chunks(asked.bytes)) receive(s, next_++);
    link_->send(tag(MessageKind::ready), &yes_, 1, ready_op_);
  }
  void receive(Slot& s, std::uint32_t chunk) {
    s.chunk = chunk;
    link_->receive(tag(MessageKind::data, chunk), s.staging.data(),
                   wire::data_header_bytes + bytes_of(chunk, asked_->bytes), s.operation);
  }
  void take(Slot& s) {
    auto const bytes = bytes_of(s.chunk, asked_->bytes);
    require_ok(s.operation);
    if (s.operation.bytes() != wire::data_header_bytes + bytes)
      throw std::runtime_error("DATA has another length");
    auto const is = wire::decode_data_header({s.staging.data(), wire::data_header_bytes});
    if (!is || *is != header(s.chunk, bytes))
      throw std::runtime_error("DATA is another transfer's or another chunk's");
    LocalSpan const to{reinterpret_cast<std::byte*>(asked_->address) + s.chunk * slice_bytes,
                       bytes};
    copy::Memcpy{}.scatter(s.staging.data() + wire::data_header_bytes, {{&to, 1}, 0, bytes},
                           event_);
    ++landed_;
  }

  Bytes& pool_;
  std::optional<Asked> asked_{};
  std::uint32_t next_ = 0;
  std::uint32_t landed_ = 0;
  bool answered_ = false;
  std::byte yes_{1};
  Operation ready_op_{};
  Operation result_op_{};
  copy::Memcpy::Event event_{};
};

void by_hand(Network const& network, Bytes const& kv, Bytes& pool) {
  HandSender sender("sender", 1, network);
  HandReceiver receiver("receiver", 2, network, pool);
  sender.connect("receiver");
  while (!sender.linked() || !receiver.linked()) sender.turn(), receiver.turn();
  sender.write(kv, pool);
  while (!sender.advance()) receiver.advance();
}

}  // namespace

int main(int argc, char** argv) {
  auto const how = argc == 3 ? std::string_view(argv[1]) : std::string_view();
  auto const chunks = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if ((how != "b10" && how != "by-hand") || chunks == 0) {
    std::fputs("instructions b10|by-hand CHUNKS\n", stderr);
    return 2;
  }
  Bytes kv(chunks * slice_bytes), pool(kv.size());
  for (std::size_t i = 0; i < kv.size(); i += 4096) kv[i] = static_cast<std::byte>(i >> 12 | 1);
  auto const network = std::make_shared<Loopback::Network>(Loopback::Network::Clock::steady);
  how == "b10" ? by_b10(network, kv, pool) : by_hand(network, kv, pool);
  if (kv == pool) return 0;
  std::fputs("wrong bytes arrived\n", stderr);
  return 1;
}
