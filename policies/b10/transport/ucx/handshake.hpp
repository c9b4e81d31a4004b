#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/hello.hpp>
#include <b10/time.hpp>
#include <b10/transport/ucx/frames.hpp>
#include <b10/transport/ucx/keyed_mac.hpp>
#include <b10/types.hpp>
#include <b10/version.hpp>

namespace b10::transport::ucx {

enum class Role : std::uint8_t { client, server };
[[nodiscard]] constexpr Role other(Role r) noexcept {
  return r == Role::client ? Role::server : Role::client;
}

/// Everything that is derived from the shared key and the two nonces of one connection. Each use
/// has its own label, so that no value can stand in for another one.
class KeySchedule {
 public:
  KeySchedule(std::string_view key, Nonce const& client, Nonce const& server)
      : key_(as_byte_view(key)), client_(client), server_(server) {}
  /// What `role` sends to prove that it has the key.
  [[nodiscard]] Digest proof(Role role) const {
    return derive(role == Role::client ? "b10 proof client" : "b10 proof server");
  }
  /// Authenticates the bootstrap frames that `sender` sends.
  [[nodiscard]] Digest frames(Role sender) const {
    return derive(sender == Role::client ? "b10 frame client" : "b10 frame server");
  }
  /// Authenticates the control messages that `sender` sends.
  [[nodiscard]] Digest control(Role sender) const {
    return derive(sender == Role::client ? "b10 ctrl. client" : "b10 ctrl. server");
  }

 private:
  [[nodiscard]] Digest derive(std::string_view label) const {
    return hmac(key_, {as_byte_view(label), client_, server_});
  }
  std::span<std::byte const> key_;
  Nonce client_;
  Nonce server_;
};

/// Names two incarnations to each other and to nobody else; the same in either order, the same
/// after every reconnect.
[[nodiscard]] inline PairDomain pair_domain(std::string_view key, Hello const& a, Hello const& b) {
  auto const encode = [](Hello const& h) {
    BodyWriter w;
    w.integer(static_cast<std::uint32_t>(h.name.size()));
    w.append(as_byte_view(h.name));
    w.integer(h.incarnation.high);
    w.integer(h.incarnation.low);
    return w.bytes;
  };
  auto one = encode(a);
  auto two = encode(b);
  if (two < one) std::swap(one, two);
  auto const digest = hmac(as_byte_view(key), {as_byte_view("b10 pair domain."), one, two});
  return PairDomain{ByteReader(digest).take<std::uint64_t>()};
}

/// Next generation that `server` may give out above `floor`; nullopt when they are used up. The two
/// nodes of a pair give out odd and even numbers: when both connect to each other at once, neither
/// can choose the number that the other one has just promised.
[[nodiscard]] inline std::optional<Generation> next_generation(Generation floor,
                                                               Hello const& server,
                                                               Hello const& client) {
  auto const rank = [](Hello const& h) {
    return std::tie(h.name, h.incarnation.high, h.incarnation.low);
  };
  std::uint64_t const parity = rank(server) < rank(client) ? 1 : 0;
  std::uint64_t next = std::uint64_t{to_integer(floor)} + 1;
  if (next % 2 != parity) ++next;
  if (next > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return Generation{static_cast<std::uint32_t>(next)};
}

/// First frame of each side.
struct Greet {
  static constexpr std::uint64_t magic = 0x746f6f625f303162;  // "b10_boot" in little-endian
  std::uint16_t version = protocol_version;
  Nonce nonce{};

  [[nodiscard]] std::vector<std::byte> encode() const {
    BodyWriter w;
    w.integer(magic);
    w.integer(version);
    w.append(nonce);
    return std::move(w.bytes);
  }
  /// nullopt unless the magic is right; of another version only `version` is filled.
  [[nodiscard]] static std::optional<Greet> decode(std::span<std::byte const> body) {
    ByteReader r(body);
    bool const ours = r.take<std::uint64_t>() == magic;
    Greet g;
    g.version = r.take<std::uint16_t>();
    if (!ours || !r.ok()) return std::nullopt;
    if (g.version != protocol_version) return g;
    auto const nonce = r.take_bytes(g.nonce.size());
    if (!r.done()) return std::nullopt;
    std::copy(nonce.begin(), nonce.end(), g.nonce.begin());
    return g;
  }
};

/// Server, second frame.
struct Identify {
  Digest proof{};
  Duration heartbeat{};
  Hello hello{};

  [[nodiscard]] std::vector<std::byte> encode() const {
    BodyWriter w;
    w.append(proof);
    w.integer(static_cast<std::uint64_t>(heartbeat.ns));
    w.append(encode_hello(hello));
    return std::move(w.bytes);
  }
  [[nodiscard]] static std::optional<Identify> decode(std::span<std::byte const> body) {
    ByteReader r(body);
    Identify m;
    auto const proof = r.take_bytes(m.proof.size());
    std::copy(proof.begin(), proof.end(), m.proof.begin());
    m.heartbeat = Duration{static_cast<std::int64_t>(r.take<std::uint64_t>())};
    auto hello = decode_hello(r.take_bytes(r.left()));
    if (!r.ok() || !hello) return std::nullopt;
    m.hello = std::move(*hello);
    return m;
  }
};

/// Client, third frame.
struct Offer {
  Duration heartbeat{};
  Generation floor{};
  Hello hello{};
  std::vector<std::byte> worker{};

  [[nodiscard]] std::vector<std::byte> encode() const {
    auto const h = encode_hello(hello);
    BodyWriter w;
    w.integer(static_cast<std::uint64_t>(heartbeat.ns));
    w.integer(to_integer(floor));
    w.integer(static_cast<std::uint32_t>(h.size()));
    w.append(h);
    w.append(worker);
    return std::move(w.bytes);
  }
  [[nodiscard]] static std::optional<Offer> decode(std::span<std::byte const> body) {
    ByteReader r(body);
    Offer m;
    m.heartbeat = Duration{static_cast<std::int64_t>(r.take<std::uint64_t>())};
    m.floor = Generation{r.take<std::uint32_t>()};
    auto hello = decode_hello(r.take_bytes(r.take<std::uint32_t>()));
    auto const worker = r.take_bytes(r.left());
    if (!r.ok() || !hello || worker.empty()) return std::nullopt;
    m.hello = std::move(*hello);
    m.worker.assign(worker.begin(), worker.end());
    return m;
  }
};

/// Server, third frame.
struct Accept {
  Generation generation{};
  std::vector<std::byte> worker{};

  [[nodiscard]] std::vector<std::byte> encode() const {
    BodyWriter w;
    w.integer(to_integer(generation));
    w.append(worker);
    return std::move(w.bytes);
  }
  [[nodiscard]] static std::optional<Accept> decode(std::span<std::byte const> body) {
    ByteReader r(body);
    Accept m;
    m.generation = Generation{r.take<std::uint32_t>()};
    auto const worker = r.take_bytes(r.left());
    if (!r.ok() || worker.empty()) return std::nullopt;
    m.worker.assign(worker.begin(), worker.end());
    return m;
  }
};

/// A sentence from a peer, made safe to log: at most 500 printable ASCII characters.
[[nodiscard]] inline std::string printable(std::span<std::byte const> text) {
  std::string out;
  for (auto const b : text.first(std::min<std::size_t>(text.size(), 500))) {
    auto const c = std::to_integer<char>(b);
    out += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return out;
}

}  // namespace b10::transport::ucx
