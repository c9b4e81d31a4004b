// What prefill and decode say to each other, beside B10: who asks whom for what.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "common/channel.hpp"
#include "common/peer_process.hpp"
#include "pool.hpp"

namespace demo {

enum class Kind : std::uint32_t {
  hello,         ///< decode: where to connect, which secret, and where its pool lies
  connected,     ///< prefill: ready for work
  prepare,       ///< decode: compute these blocks of a request
  prepared_all,  ///< decode: tell me when all of them are there; prefill: they are
  write,         ///< decode: send a request to these blocks
  done,          ///< prefill: how that ended, and where its time went
  raw,           ///< both: worker addresses for a measurement without B10
  raw_go,
  raw_end,
  memory,   ///< decode: how much do you hold; prefill: so much
  explain,  ///< decode: what are you composed of; prefill: of this
};

using Message = BasicMessage<Kind>;
using Plane = BasicPlane<Kind>;
using PeerProcess = BasicPeerProcess<Plane>;

inline void put(std::vector<std::uint64_t>& out, BlockTable const& table) {
  for (auto const& group : table) {
    out.push_back(group.first);
    out.push_back(group.slots.size());
    out.insert(out.end(), group.slots.begin(), group.slots.end());
  }
}

/// Throws if the numbers are no table of `groups` groups with slots of this pool.
inline BlockTable get_table(std::vector<std::uint64_t> const& in,
                            std::vector<std::uint32_t> const& pool_slots) {
  BlockTable table;
  std::size_t at = 0;
  for (auto const slots : pool_slots) {
    auto& group = table.emplace_back();
    group.first = in.at(at);
    std::uint64_t const count = in.at(at + 1);
    at += 2;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t const slot = in.at(at++);
      if (slot >= slots) throw std::runtime_error("a block table names a slot outside its pool");
      group.slots.push_back(static_cast<std::uint32_t>(slot));
    }
  }
  return table;
}

}  // namespace demo
