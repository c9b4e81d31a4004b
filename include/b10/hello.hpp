#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/outcome.hpp>
#include <b10/types.hpp>
#include <b10/version.hpp>

namespace b10 {

/// One run of one process; 128 random bits drawn at start.
struct Incarnation {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr bool operator==(Incarnation const&, Incarnation const&) = default;
};

/// What two nodes tell each other when they connect, after the key has been proven.
struct Hello {
  std::uint16_t protocol = protocol_version;
  std::string name{};  ///< configured, unique among the peers of a node; 1..255 bytes
  Incarnation incarnation{};
  std::string listen{};           ///< "host:port" where this node accepts, empty if it does not
  std::string transport{};        ///< must be equal on both sides, e.g. "ucx 1.13 tcp"
  std::string policies{};         ///< must be equal of the composition, e.g. "tag::Hashed"
  std::string layout{};           ///< opaque key of the layer above; compared byte by byte
  std::uint64_t slice_bytes = 0;  ///< largest chunk this node stages; the smaller of both is used
  std::string staging{};       ///< how a peer may reach this node's staging; opaque, may be empty
  std::uint64_t features = 0;  ///< bit set; bits both have are used
  std::uint64_t features_needed = 0;  ///< refused unless the other side has them all
  friend bool operator==(Hello const&, Hello const&) = default;
};

inline constexpr std::size_t hello_bytes_max = 16 * 1024;
inline constexpr std::size_t hello_text_bytes_max = 255;  ///< name, listen, transport, policies
inline constexpr std::size_t hello_layout_bytes_max = 4096;
inline constexpr std::size_t hello_staging_bytes_max = 1024;

/// Key-value encoding; unknown keys are ignored by decode, so that later versions can add some.
/// Throws Error{invalid_request} if a text is too long or has control characters, or the name is
/// empty.
[[nodiscard]] inline std::vector<std::byte> encode_hello(Hello const& hello);
/// nullopt for anything that is not a well-formed hello (hostile input). The protocol version comes
/// first; if it is not this one, it is all that is read.
[[nodiscard]] inline std::optional<Hello> decode_hello(std::span<std::byte const> bytes);
/// Empty if the two can work together, else a sentence that names both values; symmetric in its
/// decision.
[[nodiscard]] inline std::string incompatibility(Hello const& local, Hello const& remote);

namespace detail {

// An entry is: key (2 bytes), length (4 bytes), value.
enum class HelloKey : std::uint16_t {
  protocol = 1,
  name,
  incarnation,
  listen,
  transport,
  policies,
  layout,
  slice_bytes,
  features,
  features_needed,
  staging,
};
inline constexpr std::uint16_t hello_keys = 11;

class HelloWriter {
 public:
  explicit HelloWriter(std::span<std::byte> out) noexcept : out_(out) {}

  template <std::unsigned_integral... T>
  void integers(HelloKey key, T... values) noexcept {
    head(key, (sizeof(T) + ...));
    (out_.put(values), ...);
  }
  void text(HelloKey key, char const* what, std::string_view value, std::size_t bytes_max) {
    if (value.size() > bytes_max) {
      throw Error(Reason::invalid_request, std::string{what} + " has " +
                                               std::to_string(value.size()) + " B, at most " +
                                               std::to_string(bytes_max) + " are possible");
    }
    head(key, value.size());
    out_.put(as_byte_view(value));
  }
  void plain_text(HelloKey key, char const* what, std::string_view value) {
    if (!is_plain_text(value)) {
      throw Error(Reason::invalid_request, std::string{what} + " has control characters in it");
    }
    text(key, what, value, hello_text_bytes_max);
  }
  [[nodiscard]] std::span<std::byte const> written() const noexcept { return out_.written(); }

 private:
  void head(HelloKey key, std::size_t bytes) noexcept {
    out_.put(to_integer(key));
    out_.put(static_cast<std::uint32_t>(bytes));
  }
  ByteWriter out_;
};

/// Stores one value; false if it is malformed.
[[nodiscard]] inline bool read_hello_value(HelloKey key, ByteReader in, Hello& hello) {
  auto const plain = [&in](std::string& to, std::size_t bytes_min) {
    to = as_text(in.take_bytes(in.left()));
    return to.size() >= bytes_min && to.size() <= hello_text_bytes_max && is_plain_text(to);
  };
  auto const number = [&in](std::uint64_t& to) {
    to = in.take<std::uint64_t>();
    return in.done();
  };
  switch (key) {
    case HelloKey::protocol:
      hello.protocol = in.take<std::uint16_t>();
      return in.done();
    case HelloKey::name:
      return plain(hello.name, 1);
    case HelloKey::incarnation:
      hello.incarnation.high = in.take<std::uint64_t>();
      return number(hello.incarnation.low);
    case HelloKey::listen:
      return plain(hello.listen, 0);
    case HelloKey::transport:
      return plain(hello.transport, 0);
    case HelloKey::policies:
      return plain(hello.policies, 0);
    case HelloKey::layout:
      hello.layout = as_text(in.take_bytes(in.left()));
      return hello.layout.size() <= hello_layout_bytes_max;
    case HelloKey::slice_bytes:
      return number(hello.slice_bytes);
    case HelloKey::features:
      return number(hello.features);
    case HelloKey::features_needed:
      return number(hello.features_needed);
    case HelloKey::staging:
      hello.staging = as_text(in.take_bytes(in.left()));
      return hello.staging.size() <= hello_staging_bytes_max;
  }
  return true;
}

/// A value for a sentence: quoted if it is plain text, else in hexadecimal; shortened.
[[nodiscard]] inline std::string shown(std::string_view value) {
  constexpr std::size_t bytes_shown = 64;
  auto const head = value.substr(0, bytes_shown);
  bool printable = true;
  for (char const c : head) printable &= c >= 0x20 && c <= 0x7e;
  std::string text = printable ? "\"" : "0x";
  for (char const c : head) {
    auto const u = static_cast<unsigned char>(c);
    if (printable) {
      text += c;
    } else {
      text += "0123456789abcdef"[u >> 4];
      text += "0123456789abcdef"[u & 15];
    }
  }
  if (value.size() > bytes_shown) text += "...";
  if (printable) text += '"';
  if (value.size() > bytes_shown) text += " (" + std::to_string(value.size()) + " B)";
  return text;
}

[[nodiscard]] inline std::string hexadecimal(std::uint64_t value) {
  std::string text;
  do text.insert(text.begin(), "0123456789abcdef"[value & 15]);
  while ((value >>= 4) != 0);
  return "0x" + text;
}

/// Empty if equal. Where both values look alike, the place of the first difference tells.
[[nodiscard]] inline std::string difference(char const* what, std::string_view local,
                                            std::string_view remote) {
  if (local == remote) return {};
  std::size_t at = 0;
  while (at < local.size() && at < remote.size() && local[at] == remote[at]) ++at;
  return std::string{what} + " differs from byte " + std::to_string(at) + ": " + shown(local) +
         " here, " + shown(remote) + " at the peer";
}

}  // namespace detail

inline std::vector<std::byte> encode_hello(Hello const& hello) {
  using detail::HelloKey;
  if (hello.name.empty()) {
    throw Error(Reason::invalid_request, "name (Config::name) is empty, 1 B at least is needed");
  }
  std::vector<std::byte> buffer(hello_bytes_max);
  detail::HelloWriter out(buffer);
  out.integers(HelloKey::protocol, hello.protocol);
  out.plain_text(HelloKey::name, "name (Config::name)", hello.name);
  out.integers(HelloKey::incarnation, hello.incarnation.high, hello.incarnation.low);
  out.plain_text(HelloKey::listen, "listen address", hello.listen);
  out.plain_text(HelloKey::transport, "description of the transport", hello.transport);
  out.plain_text(HelloKey::policies, "description of the policies", hello.policies);
  out.text(HelloKey::layout, "layout (Config::layout)", hello.layout, hello_layout_bytes_max);
  out.integers(HelloKey::slice_bytes, hello.slice_bytes);
  out.integers(HelloKey::features, hello.features);
  out.integers(HelloKey::features_needed, hello.features_needed);
  out.text(HelloKey::staging, "offer of staging", hello.staging, hello_staging_bytes_max);
  return {out.written().begin(), out.written().end()};
}

inline std::optional<Hello> decode_hello(std::span<std::byte const> bytes) {
  using detail::HelloKey;
  if (bytes.size() > hello_bytes_max) return std::nullopt;
  Hello hello;
  std::uint32_t seen = 0;
  constexpr std::uint32_t all = ((1u << detail::hello_keys) - 1) << 1;
  for (ByteReader in(bytes); in.left() > 0;) {
    auto const key = in.take<std::uint16_t>();
    auto const value = in.take_bytes(in.take<std::uint32_t>());
    if (!in.ok()) return std::nullopt;
    bool const first = seen == 0;
    if (first != (key == to_integer(HelloKey::protocol))) return std::nullopt;
    if (key == 0 || key > detail::hello_keys) continue;
    if ((seen >> key & 1) != 0) return std::nullopt;
    seen |= 1u << key;
    if (!detail::read_hello_value(HelloKey{key}, ByteReader(value), hello)) return std::nullopt;
    if (first && hello.protocol != protocol_version) return hello;
  }
  if (seen != all) return std::nullopt;
  return hello;
}

inline std::string incompatibility(Hello const& local, Hello const& remote) {
  if (local.protocol != remote.protocol) {
    return "protocol version differs: " + std::to_string(local.protocol) + " here, " +
           std::to_string(remote.protocol) + " at the peer; run the same version on both";
  }
  if (local.incarnation == remote.incarnation) {
    return "the peer is this node itself (incarnation " +
           detail::hexadecimal(local.incarnation.high) + ":" +
           detail::hexadecimal(local.incarnation.low) + ")";
  }
  for (auto const& why : {detail::difference("transport", local.transport, remote.transport),
                          detail::difference("policies", local.policies, remote.policies),
                          detail::difference("layout", local.layout, remote.layout)}) {
    if (!why.empty()) return why;
  }
  if (auto const lacks = local.features_needed & ~remote.features; lacks != 0) {
    return "the peer lacks feature bits " + detail::hexadecimal(lacks) + ": it has " +
           detail::hexadecimal(remote.features) + ", this node needs " +
           detail::hexadecimal(local.features_needed) + "; upgrade the peer";
  }
  if (auto const lacks = remote.features_needed & ~local.features; lacks != 0) {
    return "this node lacks feature bits " + detail::hexadecimal(lacks) + ": it has " +
           detail::hexadecimal(local.features) + ", the peer needs " +
           detail::hexadecimal(remote.features_needed) + "; upgrade this node";
  }
  return {};
}

}  // namespace b10
