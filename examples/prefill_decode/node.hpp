// The transceiver that both processes use.
#pragma once

#include <random>
#include <string>
#include <utility>

#include <b10/transceiver.hpp>

#include "options.hpp"

namespace demo {

/// b10::HostTransceiver with slices of up to 8 MiB. A slice is never larger than its staging
/// buffer, so buffers of one slice each make --slice a choice at run time.
struct Node : b10::Transceiver<b10::staging::Host<b10::slicing::Pipelined<slice_max, 4>>> {
  using Transceiver::Transceiver;
};

inline constexpr std::uint64_t staging_bytes = std::uint64_t{128} << 20;

/// A secret for the processes of one run.
inline std::string random_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 8; ++i) key += std::to_string(random());
  return key;
}

inline Node::Config config(Options const& o, std::string name, std::string key) {
  Node::Config c;
  c.name = std::move(name);
  // Peers that cut their pages differently must not meet.
  c.layout = o.model + " tp" + std::to_string(o.tp) + " bf16 page32 " +
             (o.kv == KvLayout::together ? "kv" : "k+v");
  c.staging.buffer_bytes = o.slice;
  c.staging.buffers = staging_bytes / o.slice;
  c.staging.page_lock = b10::staging::PageLock::never;
  c.transport.listen = "127.0.0.1:0";
  c.transport.key = std::move(key);
  c.transport.wire = o.wire;
  return c;
}

}  // namespace demo
