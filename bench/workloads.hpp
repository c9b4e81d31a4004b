// What the benchmarks move: the block layouts of real models as span lists, and their contents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace b10::bench {

/// `blocks` blocks of `bytes` bytes in each of `regions` regions (one per layer, or two when K and
/// V lie apart). All regions use the same block table, as engines do.
struct Group {
  std::size_t regions;
  std::size_t blocks;
  std::uint64_t bytes;
};

struct Workload {
  std::string name;
  std::vector<Group> groups;

  [[nodiscard]] std::size_t spans() const {
    return std::accumulate(groups.begin(), groups.end(), std::size_t{0},
                           [](auto n, Group const& g) { return n + g.regions * g.blocks; });
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return std::accumulate(
        groups.begin(), groups.end(), std::uint64_t{0},
        [](auto n, Group const& g) { return n + g.regions * g.blocks * g.bytes; });
  }
};

/// bf16, 32 tokens a block unless said.
[[nodiscard]] inline std::vector<Workload> workloads() {
  return {
      {"B-small", {{36, 256, 4096}, {36, 4, 4096}}},  // gpt-oss-120b TP8, 8k tokens
      {"B-mid", {{32, 256, 131'072}}},                // Llama-3.1-8B TP1, 8k, K and V together
      {"B-large", {{160, 4096, 8192}}},               // Llama-3.1-70B TP8, 128k
      {"B-mla", {{61, 1024, 36'864}}},                // DeepSeek-V3, 32k
      {"B-state",
       {{54, 1, 16'777'216}, {54, 1, 122'880}, {20, 256, 65'536}}},  // Nemotron-H-56B, 8k
      {"B-swa", {{20, 1024, 131'072}, {104, 32, 131'072}}},          // Gemma-3-27B, 32k
      {"B-worst", {{64, 8192, 256}}},  // Llama-3.1-8B TP8, one token a page, 8k
  };
}

/// 1/divisor of the blocks of each group, at least one; layers and block sizes stay. "B-mid/4".
[[nodiscard]] inline Workload scaled(Workload w, std::size_t divisor) {
  if (divisor > 1) w.name += "/" + std::to_string(divisor);
  for (Group& g : w.groups) g.blocks = std::max<std::size_t>(1, g.blocks / divisor);
  return w;
}

struct Piece {
  std::uint64_t offset;  ///< into the pool
  std::uint64_t bytes;
};

/// `sets` disjoint transfers of one workload in one pool that just holds them all. The blocks of a
/// set are drawn at random over its whole region, so a region is `sets` times as large as one
/// transfer needs, and rotating the sets keeps input out of the caches.
class Layout {
 public:
  Layout(Workload const& w, std::size_t sets, std::uint64_t seed) : sets_(sets) {
    std::mt19937_64 random(seed);
    for (auto& s : sets_) s.reserve(w.spans());
    for (Group const& g : w.groups) {
      std::vector<std::size_t> slots(sets * g.blocks);
      std::iota(slots.begin(), slots.end(), std::size_t{0});
      std::shuffle(slots.begin(), slots.end(), random);
      for (std::size_t region = 0; region < g.regions; ++region) {
        for (std::size_t i = 0; i < slots.size(); ++i) {
          sets_[i / g.blocks].push_back({pool_bytes_ + slots[i] * g.bytes, g.bytes});
        }
        pool_bytes_ += slots.size() * g.bytes;
      }
    }
  }
  [[nodiscard]] std::uint64_t pool_bytes() const { return pool_bytes_; }
  [[nodiscard]] std::vector<Piece> const& set(std::size_t i) const {
    return sets_[i % sets_.size()];
  }

 private:
  std::vector<std::vector<Piece>> sets_;
  std::uint64_t pool_bytes_ = 0;
};

/// Contents of a source pool, a pseudo-random function of the place: whoever knows the layout can
/// tell what must have arrived, without having seen the source. Offsets and sizes: multiples of 8.
class Contents {
 public:
  explicit Contents(std::uint64_t seed) : seed_(seed) {}

  void fill(std::byte* to, std::uint64_t offset, std::uint64_t bytes) const {
    auto* const words = reinterpret_cast<std::uint64_t*>(to);
    for (std::uint64_t i = 0; i < bytes / 8; ++i) words[i] = word(offset / 8 + i);
  }
  /// Every byte is compared.
  [[nodiscard]] bool matches(std::byte const* at, std::uint64_t offset, std::uint64_t bytes) const {
    auto const* const words = reinterpret_cast<std::uint64_t const*>(at);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes / 8; ++i) wrong |= words[i] ^ word(offset / 8 + i);
    return wrong == 0;
  }

 private:
  [[nodiscard]] std::uint64_t word(std::uint64_t place) const {
    std::uint64_t x = (place + seed_) * 0x9e37'79b9'7f4a'7c15u;
    x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93u;
    return x ^ (x >> 29);
  }
  std::uint64_t seed_;
};

}  // namespace b10::bench
