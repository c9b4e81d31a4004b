// Request traces: one JSON object a line with input_length (tokens) and hash_ids, one id for each
// 512 tokens of the prompt; equal ids mean equal content up to there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace demo {

inline constexpr std::uint64_t hash_tokens = 512;

struct Request {
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> hashes{};  ///< of its full 512-token blocks
};

/// Requests that run under the same rules.
struct Phase {
  std::vector<Request> requests;
  std::uint64_t concurrency;
};

/// The first `requests` requests, their prompts cut to `tokens_max`.
inline std::vector<Request> read_trace(std::string const& file, std::uint64_t requests,
                                       std::uint64_t tokens_max) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("--trace is '" + file + "', which cannot be read");
  std::vector<Request> out;
  std::uint64_t number = 0;
  for (std::string line; out.size() < requests && std::getline(in, line);) {
    ++number;
    try {
      auto const entry = nlohmann::json::parse(line);
      auto const& length = entry.at("input_length");
      if (!length.is_number_unsigned())
        throw std::runtime_error("input_length is " + length.dump());
      Request r{out.size() + 1, length, entry.at("hash_ids")};
      r.tokens = std::min(r.tokens, tokens_max);
      if (r.tokens == 0) throw std::runtime_error("input_length is 0");
      r.hashes.resize(std::min<std::size_t>(r.hashes.size(), r.tokens / hash_tokens));
      out.push_back(std::move(r));
    } catch (std::exception const& e) {
      throw std::runtime_error("--trace is '" + file + "', line " + std::to_string(number) +
                               " is no request: " + e.what());
    }
  }
  if (out.empty()) throw std::runtime_error("--trace is '" + file + "', which holds no requests");
  return out;
}

}  // namespace demo
