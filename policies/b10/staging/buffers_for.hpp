#pragma once

#include <cstdint>
#include <string>

#include <b10/outcome.hpp>

namespace b10::staging {

/// What the number of staging buffers follows from.
struct TokenBudget {
  std::uint64_t max_tokens = 0;       ///< tokens in transfer at once
  std::uint64_t buffer_bytes = 0;     ///< size of one staging buffer [bytes]
  std::uint64_t bytes_per_token = 0;  ///< KV bytes of one token on this rank, over all layers
};

/// Buffers needed to stage the budget when a token is never split: ceil(max_tokens / floor(buffer /
/// token)). Throws Error{invalid_request} if a token has no bytes or does not fit a buffer.
[[nodiscard]] inline std::uint64_t buffers_for(TokenBudget budget) {
  auto const [tokens, buffer, token] = budget;
  if (token == 0 || token > buffer) {
    throw Error(Reason::invalid_request, "bytes_per_token is " + std::to_string(token) +
                                             ", must be 1 to buffer_bytes (" +
                                             std::to_string(buffer) + "): raise buffer_bytes");
  }
  auto const tokens_per_buffer = buffer / token;
  return tokens / tokens_per_buffer + (tokens % tokens_per_buffer != 0);
}

}  // namespace b10::staging
