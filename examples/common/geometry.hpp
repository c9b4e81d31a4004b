// What one block of a model's KV cache consists of, read from models.json.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace demo {

inline constexpr std::uint64_t block_tokens = 32;
inline constexpr std::uint64_t element_bytes = 2;  // bf16

// Limits of what a models file may say.
inline constexpr std::uint64_t layers_max = 4096;
inline constexpr std::uint64_t heads_max = 4096;
inline constexpr std::uint64_t dimension_max = 65'536;
inline constexpr std::uint64_t window_max = std::uint64_t{1} << 32;
inline constexpr std::uint64_t part_bytes_max = std::uint64_t{1} << 40;

enum class KvLayout { together, apart };

/// Layers that share a block table.
struct LayerGroup {
  std::string name;
  std::uint64_t layers = 0;
  /// Bytes of one block in each region of a layer: {K+V}, {K, V}, or {state, conv}.
  std::vector<std::uint64_t> parts;
  std::uint64_t window = 0;    ///< tokens; 0: all of them
  bool per_request = false;    ///< recurrent state: one block a request, whatever its length
  std::uint64_t kv_heads = 0;  ///< of the whole model
  std::uint64_t k_dim = 0;     ///< elements of one head
  bool latent = false;         ///< MLA: one vector a token, the same on every rank
};

struct BlockRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - first; }
};

/// The blocks of a request of `tokens` that decode still needs when it holds the first `held` of
/// them. A window keeps no prefix for later requests, so it is always sent whole.
inline BlockRange blocks_needed(LayerGroup const& g, std::uint64_t tokens, std::uint64_t held) {
  if (g.per_request) return {0, 1};
  std::uint64_t const end = (tokens + block_tokens - 1) / block_tokens;
  if (g.window == 0) return {held / block_tokens, end};
  return {tokens > g.window ? (tokens - g.window) / block_tokens : 0, end};
}

struct Model {
  std::string name;
  std::vector<LayerGroup> groups;  ///< of one tensor-parallel rank
};

inline std::string describe(Model const& model, std::uint64_t tp, KvLayout kv) {
  std::string groups;
  for (auto const& g : model.groups)
    groups += (groups.empty() ? "" : " + ") + std::to_string(g.layers) + " layers " + g.name;
  return model.name + " TP" + std::to_string(tp) + ", bf16, blocks of " +
         std::to_string(block_tokens) + " tokens, " + groups +
         (kv == KvLayout::together ? ", K and V together" : ", K and V apart");
}

namespace detail {

/// json converts silently: -1 would become 2^64 - 1, 2.5 become 2.
inline std::uint64_t field(nlohmann::json const& object, char const* key, std::uint64_t min,
                           std::uint64_t max) {
  auto const& value = object.at(key);
  if (value.is_number_unsigned() && value >= min && value <= max) return value;
  throw std::runtime_error(std::string("--models: ") + key + " is " + value.dump() +
                           ", allowed are " + std::to_string(min) + " to " + std::to_string(max));
}

inline std::uint64_t heads_of_rank(std::uint64_t heads, std::uint64_t tp) {
  if (heads % tp != 0 && tp % heads != 0)
    throw std::runtime_error("--tp is " + std::to_string(tp) +
                             ", allowed are divisors and multiples of the " +
                             std::to_string(heads) + " KV heads");
  return std::max<std::uint64_t>(1, heads / tp);
}

inline LayerGroup attention(nlohmann::json const& g, std::uint64_t tp, KvLayout kv) {
  LayerGroup out;
  out.name = g.at("name");
  out.layers = field(g, "layers", 1, layers_max);
  if (!g.at("window").is_null()) out.window = field(g, "window", 0, window_max);
  std::uint64_t const all_heads = field(g, "kv_heads", 1, heads_max);
  std::uint64_t const heads = g.at("replicated") ? all_heads : heads_of_rank(all_heads, tp);
  out.kv_heads = all_heads;
  out.k_dim = field(g, "k_dim", 1, dimension_max);
  out.latent = g.at("v_dim") == 0;
  std::uint64_t const row = block_tokens * heads * element_bytes;
  std::uint64_t const k = row * field(g, "k_dim", 1, dimension_max);
  std::uint64_t const v = row * field(g, "v_dim", 0, dimension_max);
  if (v == 0 || kv == KvLayout::together)
    out.parts = {k + v};
  else
    out.parts = {k, v};
  return out;
}

inline LayerGroup recurrent(nlohmann::json const& s, std::uint64_t tp) {
  LayerGroup out;
  out.name = "state";
  out.layers = field(s, "layers", 1, layers_max);
  out.per_request = true;
  for (char const* part : {"state_bytes", "conv_bytes"})
    if (std::uint64_t const bytes = field(s, part, 0, part_bytes_max) / tp; bytes > 0)
      out.parts.push_back(bytes);
  if (out.parts.empty())
    throw std::runtime_error("--models: a state group of 0 bytes on each of --tp " +
                             std::to_string(tp) + " ranks");
  return out;
}

}  // namespace detail

/// Throws std::runtime_error naming what is wrong and which option mends it.
inline Model load_model(std::string const& file, std::string const& name, std::uint64_t tp,
                        KvLayout kv) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("--models is '" + file + "', which cannot be read");
  nlohmann::json models;
  try {
    models = nlohmann::json::parse(in).at("models");
    if (!models.contains(name)) {
      std::string known;
      for (auto const& item : models.items()) known += (known.empty() ? "" : ", ") + item.key();
      throw std::runtime_error("--model is '" + name + "', allowed are " + known);
    }
    Model model{name, {}};
    for (auto const& g : models[name].at("groups"))
      model.groups.push_back(detail::attention(g, tp, kv));
    if (models[name].contains("state"))
      for (auto const& s : models[name]["state"]) model.groups.push_back(detail::recurrent(s, tp));
    return model;
  } catch (nlohmann::json::exception const& e) {
    throw std::runtime_error("--models is '" + file + "', which is no models file: " + e.what());
  }
}

}  // namespace demo
