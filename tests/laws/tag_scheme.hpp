#pragma once

#include <cstdint>

#include <b10/tag_scheme.hpp>

#include "support/catch.hpp"

namespace laws {

/// Every model of b10::TagScheme passes these.
template <b10::TagScheme S>
void tag_scheme(S const& scheme) {
  using namespace b10;
  for (std::uint32_t const generation : {0u, 1u, 0xffff'ffffu}) {
    for (std::uint64_t const transfer : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      for (auto const kind :
           {MessageKind::control, MessageKind::ready, MessageKind::result, MessageKind::data,
            MessageKind::descriptors, MessageKind::abort, MessageKind::places, MessageKind::note}) {
        CAPTURE(generation, transfer, to_integer(kind));
        MessageIdentity const m{PairDomain{7}, Generation{generation}, TransferId{transfer},
                                ChunkIndex{0}, kind};
        CHECK(scheme.tag(m) == scheme.tag(m));
        CHECK(scheme.tag(m) != control_tag);
      }
    }
  }
}

}  // namespace laws
