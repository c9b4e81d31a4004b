// A model's layer groups as the session layer knows them, and what each block of a request holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <b10/session/geometry.hpp>

#include "common/geometry.hpp"
#include "common/pattern.hpp"
#include "common/trace.hpp"

namespace mini {

namespace ses = b10::session;
using b10::to_integer;

/// Where one tensor-parallel rank stands; mini_engine moves rank 0.
[[nodiscard]] inline ses::RankPlace place_of(std::uint64_t tp) {
  return {static_cast<std::uint32_t>(tp), 0};
}

/// Layers are numbered through, group by group.
[[nodiscard]] inline std::vector<ses::GroupGeometry> geometries(demo::Model const& model,
                                                                std::uint64_t tp) {
  std::vector<ses::GroupGeometry> out;
  std::uint32_t layer = 0;
  for (auto const& g : model.groups) {
    auto& to = out.emplace_back();
    for (std::uint64_t i = 0; i < g.layers; ++i) to.layers.push_back(ses::LayerId{layer++});
    if (g.per_request) {
      to.kind = ses::GroupKind::state;
      to.heads_total = static_cast<std::uint32_t>(tp);  // a shard a rank
      to.section_bytes = g.parts;
      continue;
    }
    to.mla = g.latent;
    to.heads_total = static_cast<std::uint32_t>(g.kv_heads);
    to.head_size = static_cast<std::uint32_t>(g.k_dim);
    to.element_bytes = demo::element_bytes;
    to.tokens_per_block = demo::block_tokens;
    to.window = g.window;
  }
  return out;
}

/// What the KV of a block follows from. Blocks of equal prefixes are equal, as in a real engine, so
/// that a cached one can stand for another.
class Content {
 public:
  /// `hash_tokens`: tokens that one hash of the request covers, a multiple of a block.
  Content(demo::Request const& request, std::uint64_t hash_tokens)
      : request_(request), blocks_per_hash_(hash_tokens / demo::block_tokens) {}

  /// Blocks whose content has a name that other requests know.
  [[nodiscard]] std::uint32_t shared_blocks() const {
    return static_cast<std::uint32_t>(request_.hashes.size() * blocks_per_hash_);
  }
  /// The name of block `i`, within its group.
  [[nodiscard]] std::uint64_t name(std::uint32_t i) const {
    if (i >= shared_blocks()) return own_name() << 20 | i;
    return request_.hashes[i / blocks_per_hash_] << 20 | i;
  }
  [[nodiscard]] demo::Pattern block(std::size_t group, std::uint32_t i) const {
    return {name(i), group};
  }
  [[nodiscard]] demo::Pattern state(std::size_t group) const { return {own_name(), group}; }
  [[nodiscard]] std::uint64_t first_token() const { return demo::mix(request_.number); }

 private:
  [[nodiscard]] std::uint64_t own_name() const {
    return (std::uint64_t{1} << 42) + request_.number;
  }

  demo::Request const& request_;
  std::uint64_t blocks_per_hash_;
};

}  // namespace mini
