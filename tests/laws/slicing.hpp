#pragma once

#include <cstdint>

#include <b10/slicing.hpp>

#include "support/catch.hpp"

namespace laws {

/// Every model of b10::Slicing passes these.
template <b10::Slicing S>
void slicing() {
  for (std::uint64_t const buffer :
       {std::uint64_t{1}, std::uint64_t{1024}, (std::uint64_t{4} << 20) - 1,
        (std::uint64_t{4} << 20) + 1, std::uint64_t{512} << 20, ~std::uint64_t{0}}) {
    CAPTURE(buffer);
    CHECK(S::slice_bytes(buffer) > 0);
    CHECK(S::slice_bytes(buffer) <= buffer);
  }
  CHECK(S::depth >= 1);
}

}  // namespace laws
