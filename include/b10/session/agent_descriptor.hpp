#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/outcome.hpp>
#include <b10/types.hpp>
#include <b10/version.hpp>

namespace b10 {

/// What an engine ships to the peers of an agent, as opaque bytes.
struct AgentDescriptor {
  std::uint16_t protocol = protocol_version;
  std::uint16_t version = 1;  ///< of this encoding's meaning
  std::string name{};
  std::string address{};  ///< where the transceiver accepts
  std::uint64_t features = 0;
  std::vector<RemoteSpan> regions{};  ///< memory registered when it was made
  friend bool operator==(AgentDescriptor const&, AgentDescriptor const&) = default;
};

inline constexpr std::uint16_t agent_descriptor_version = 1;
inline constexpr std::size_t agent_regions_max = 4096;
inline constexpr std::size_t agent_text_bytes_max = 255;
inline constexpr std::size_t agent_descriptor_bytes_max = 256 * 1024;

/// What this version's agents can do; a peer that lacks a needed bit is refused.
inline constexpr std::uint64_t agent_features = 0x1;  // bit 0: WRITE under grants

namespace detail {
enum class AgentKey : std::uint16_t { protocol = 1, version, name, address, features, region };
}

/// Key-value pairs: key (2 bytes), length (4 bytes), value; protocol and version come first.
[[nodiscard]] inline std::vector<std::byte> encode_agent_descriptor(AgentDescriptor const& d) {
  using detail::AgentKey;
  std::vector<std::byte> buffer(1024 + 2 * agent_text_bytes_max + d.regions.size() * 32);
  ByteWriter out(buffer);
  auto const head = [&](AgentKey key, std::size_t bytes) {
    out.put(to_integer(key));
    out.put(static_cast<std::uint32_t>(bytes));
  };
  auto const text = [&](AgentKey key, std::string const& value) {
    head(key, value.size());
    out.put(as_byte_view(value));
  };
  head(AgentKey::protocol, 2);
  out.put(d.protocol);
  head(AgentKey::version, 2);
  out.put(d.version);
  text(AgentKey::name, d.name);
  text(AgentKey::address, d.address);
  head(AgentKey::features, 8);
  out.put(d.features);
  for (auto const& r : d.regions) {
    head(AgentKey::region, 20);
    out.put(r.address);
    out.put(r.bytes);
    out.put(static_cast<std::uint32_t>(to_integer(r.device)));
  }
  if (!out.ok() || d.name.size() > agent_text_bytes_max ||
      d.address.size() > agent_text_bytes_max || d.regions.size() > agent_regions_max)
    throw Error(Reason::invalid_request,
                "an agent descriptor with a name of " + std::to_string(d.name.size()) +
                    " bytes, an address of " + std::to_string(d.address.size()) + " and " +
                    std::to_string(d.regions.size()) + " regions; the limits are 255, 255 and " +
                    std::to_string(agent_regions_max));
  return {out.written().begin(), out.written().end()};
}

/// Hostile input. Unknown keys are ignored. Throws Error{invalid_request} saying what is wrong: for
/// another protocol or version both values are named, and nothing further is read.
[[nodiscard]] inline AgentDescriptor decode_agent_descriptor(std::span<std::byte const> bytes) {
  using detail::AgentKey;
  auto const refuse = [](std::string const& why) {
    throw Error(Reason::invalid_request, "agent descriptor: " + why);
  };
  if (bytes.size() > agent_descriptor_bytes_max)
    refuse(std::to_string(bytes.size()) + " bytes, the limit is " +
           std::to_string(agent_descriptor_bytes_max));
  AgentDescriptor d;
  d.protocol = d.version = 0;
  unsigned seen = 0;
  for (ByteReader in(bytes); in.left() > 0;) {
    auto const key = AgentKey{in.take<std::uint16_t>()};
    ByteReader value(in.take_bytes(in.take<std::uint32_t>()));
    if (!in.ok()) refuse("cut short");
    if (seen < 2 && to_integer(key) != seen + 1) refuse("it does not begin with its protocol");
    if (key >= AgentKey::protocol && key < AgentKey::region) {
      if ((seen >= 2 && key <= AgentKey::version)) refuse("a key comes twice");
      ++seen;
    }
    auto const agree = [&](char const* what, unsigned here, unsigned there) {
      if (here != there)
        refuse(std::string(what) + " differs: " + std::to_string(here) + " here, " +
               std::to_string(there) + " at the peer; run the same version on both");
    };
    auto const text = [&](std::string& to) {
      to = as_text(value.take_bytes(value.left()));
      if (to.size() > agent_text_bytes_max || !is_plain_text(to)) refuse("a text is malformed");
    };
    switch (key) {
      case AgentKey::protocol:
        d.protocol = value.take<std::uint16_t>();
        agree("protocol", protocol_version, d.protocol);
        break;
      case AgentKey::version:
        d.version = value.take<std::uint16_t>();
        agree("descriptor version", agent_descriptor_version, d.version);
        break;
      case AgentKey::name:
        text(d.name);
        break;
      case AgentKey::address:
        text(d.address);
        break;
      case AgentKey::features:
        d.features = value.take<std::uint64_t>();
        break;
      case AgentKey::region: {
        RemoteSpan r{value.take<std::uint64_t>(), value.take<std::uint64_t>(), Device::host};
        r.device = Device{static_cast<std::int32_t>(value.take<std::uint32_t>())};
        d.regions.push_back(r);
        if (d.regions.size() > agent_regions_max) refuse("too many regions");
        break;
      }
      default:
        (void)value.take_bytes(value.left());
    }
    if (!value.done()) refuse("a value has the wrong length");
  }
  if (d.protocol == 0 || d.version == 0 || d.name.empty())
    refuse("protocol, version or name is missing");
  return d;
}

}  // namespace b10
