// A paged KV pool as engines keep it: for each layer and K/V part one region of slots, a block
// table per request, and a free list that has seen traffic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/geometry.hpp"
#include "common/gpu.hpp"
#include "common/kv_memory.hpp"

namespace demo {

/// Bytes of slot s lie at begin + s * stride.
struct Region {
  std::size_t group = 0;
  std::uint64_t layer = 0;
  std::uint64_t part = 0;
  std::uint64_t begin = 0;  ///< from the start of the pool
  std::uint64_t stride = 0;
};

/// Where everything lies in a pool; the same on both sides, only the base address differs.
class PoolLayout {
 public:
  static constexpr std::uint64_t margin =
      64 * 1024;  ///< around each group: never written by anybody

  PoolLayout(Model const& model, std::vector<std::uint32_t> slots) : slots_(std::move(slots)) {
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      margins_.push_back(bytes_);
      bytes_ += margin;
      extents_.push_back({bytes_, 0});
      auto const& group = model.groups[g];
      for (std::uint64_t layer = 0; layer < group.layers; ++layer)
        for (std::uint64_t part = 0; part < group.parts.size(); ++part) {
          regions_.push_back({g, layer, part, bytes_, group.parts[part]});
          bytes_ += group.parts[part] * slots_[g];
        }
      extents_.back().second = bytes_ - extents_.back().first;
    }
    margins_.push_back(bytes_);
    bytes_ += margin;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::uint32_t> const& slots() const { return slots_; }
  [[nodiscard]] std::vector<Region> const& regions() const { return regions_; }
  /// Offset of each margin.
  [[nodiscard]] std::vector<std::uint64_t> const& margins() const { return margins_; }
  /// Offset and bytes of each group: what is registered.
  [[nodiscard]] auto const& extents() const { return extents_; }

 private:
  std::vector<std::uint32_t> slots_;
  std::vector<Region> regions_{};
  std::vector<std::uint64_t> margins_{};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents_{};
  std::uint64_t bytes_ = 0;
};

/// Blocks [first, first + slots.size()) of a request, in one group.
struct GroupBlocks {
  std::uint64_t first = 0;
  std::vector<std::uint32_t> slots;
};
using BlockTable = std::vector<GroupBlocks>;  ///< one for each group

/// Names a span within its request, whatever else is sent with it.
inline std::uint64_t span_name(std::uint64_t region, std::uint64_t block) {
  return region << 32 | block;
}

/// Calls f(span name, offset in the pool, bytes) for each span of the table, always in this order.
template <class F>
void for_each_span(PoolLayout const& layout, BlockTable const& table, F&& f) {
  for (std::size_t r = 0; r < layout.regions().size(); ++r) {
    auto const& region = layout.regions()[r];
    auto const& blocks = table[region.group];
    for (std::size_t i = 0; i < blocks.slots.size(); ++i)
      f(span_name(r, blocks.first + i), region.begin + blocks.slots[i] * region.stride,
        region.stride);
  }
}

/// Memory for the layout and the free lists of its groups.
class PagedPool {
 public:
  PagedPool(PoolLayout layout, b10::Device device, std::uint64_t seed)
      : layout_(std::move(layout)), memory_(make_memory(device, layout_.bytes())) {
    std::mt19937_64 random(seed);
    for (auto const slots : layout_.slots()) {
      auto& list = free_.emplace_back(slots);
      std::iota(list.begin(), list.end(), 0u);
      std::shuffle(list.begin(), list.end(), random);
    }
  }

  [[nodiscard]] PoolLayout const& layout() const { return layout_; }
  [[nodiscard]] KvMemory& memory() const { return *memory_; }
  /// How B10 is told of bytes of the pool.
  [[nodiscard]] b10::LocalSpan span(std::uint64_t offset, std::uint64_t bytes) const {
    return {memory_->base() + offset, bytes, memory_->device()};
  }
  [[nodiscard]] std::size_t free_slots(std::size_t group) const { return free_[group].size(); }

  /// Last in, first out: the blocks freed last are used first, as most engines do.
  [[nodiscard]] std::optional<BlockTable> take(std::span<BlockRange const> ranges) {
    for (std::size_t g = 0; g < ranges.size(); ++g)
      if (ranges[g].count() > free_[g].size()) return std::nullopt;
    BlockTable table;
    for (std::size_t g = 0; g < ranges.size(); ++g) {
      auto const tail = free_[g].end() - static_cast<std::ptrdiff_t>(ranges[g].count());
      table.push_back({ranges[g].first, {tail, free_[g].end()}});
      free_[g].erase(tail, free_[g].end());
    }
    return table;
  }
  void give_back(BlockTable const& table) {
    for (std::size_t g = 0; g < table.size(); ++g)
      free_[g].insert(free_[g].end(), table[g].slots.begin(), table[g].slots.end());
  }

 private:
  PoolLayout layout_;
  std::unique_ptr<KvMemory> memory_;
  std::vector<std::vector<std::uint32_t>> free_{};
};

}  // namespace demo
