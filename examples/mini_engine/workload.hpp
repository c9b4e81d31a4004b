// What is asked of the engine: requests of a trace or made up ones, and what is to happen to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/trace.hpp"
#include "options.hpp"

namespace mini {

using demo::Request;

/// What befalls a request on its first try.
enum class Fate : std::uint8_t {
  none,
  cancelled_by_decode,   ///< after a while
  cancelled_by_prefill,  ///< between two chunks
  stalled,               ///< prefill stops computing it: decode's time runs out
};

struct Work {
  Request request;
  Fate fate = Fate::none;
  double moment = 0;  ///< of the fate: share of the request's expected time, or of its chunks
};

/// Conversations of several turns under one system prompt: each turn repeats all that was said and
/// adds to it.
[[nodiscard]] inline std::vector<Request> made_up(Options const& o) {
  std::mt19937_64 random(o.seed);
  auto const draw = [&](std::uint64_t from, std::uint64_t to) {
    return from + random() % (to - from);
  };
  std::vector<Request> out;
  std::uint64_t next_hash = 16;
  std::vector<std::vector<std::uint64_t>> conversations(std::max<std::uint64_t>(1, o.requests / 4));
  for (auto& said : conversations)  // the system prompt
    for (std::uint64_t h = 1; h <= 4; ++h) said.push_back(h);
  auto const block = o.hash_tokens();
  while (out.size() < o.requests) {
    auto& said = conversations[draw(0, conversations.size())];
    for (auto n = draw(64, 512) / block; n > 0; --n) said.push_back(next_hash++);
    Request r{out.size() + 1, said.size() * block + draw(0, block), said};
    r.tokens = std::min(r.tokens, o.tokens);
    r.hashes.resize(std::min<std::size_t>(r.hashes.size(), r.tokens / block));
    out.push_back(std::move(r));
  }
  return out;
}

[[nodiscard]] inline std::vector<Request> traced(Options const& o) {
  auto out = demo::read_trace(o.trace, o.requests, o.tokens * o.scale);
  for (auto& r : out) r.tokens = std::max<std::uint64_t>(1, r.tokens / o.scale);
  return out;
}

/// So many of all, chosen by the seed, meet a fate.
[[nodiscard]] inline std::vector<Work> workload(Options const& o) {
  std::vector<Work> out;
  for (auto& r : o.trace.empty() ? made_up(o) : traced(o)) out.push_back({std::move(r)});
  std::mt19937_64 random(o.seed + 1);
  std::vector<Work*> chosen;
  for (auto& w : out) {
    w.moment = static_cast<double>(random() % 1000) / 1000;
    chosen.push_back(&w);
  }
  std::shuffle(chosen.begin(), chosen.end(), random);
  auto const of = [&](std::uint64_t per_mille) { return (out.size() * per_mille + 500) / 1000; };
  auto const stalls = of(o.stalls);
  auto const fated = std::min<std::uint64_t>(out.size(), stalls + of(o.cancels));
  for (std::uint64_t i = 0; i < fated; ++i)
    chosen[i]->fate = i < stalls   ? Fate::stalled
                      : i % 2 == 0 ? Fate::cancelled_by_decode
                                   : Fate::cancelled_by_prefill;
  return out;
}

}  // namespace mini
