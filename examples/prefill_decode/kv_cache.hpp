// What the decode side holds: which request's block is in which slot, and which prefixes need not
// be sent again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/pattern.hpp"
#include "common/trace.hpp"
#include "pool.hpp"

namespace demo {

/// How many slots each group gets: twice what all requests take together, but at least four times
/// the largest one, within the limit. Throws if that cannot be.
inline std::vector<std::uint32_t> pool_slots(Model const& model, std::span<Request const> requests,
                                             std::uint64_t pool_mib) {
  std::vector<std::uint64_t> least, most;
  std::uint64_t least_bytes = 0, most_bytes = 0;
  for (auto const& group : model.groups) {
    std::uint64_t largest = 0, sum = 0;
    for (auto const& r : requests) {
      auto const n = blocks_needed(group, r.tokens, 0).count();
      largest = std::max(largest, n);
      sum += n;
    }
    least.push_back(4 * largest);
    most.push_back(std::max(2 * sum, least.back()));
    std::uint64_t const block =
        group.layers * std::accumulate(group.parts.begin(), group.parts.end(), std::uint64_t{0});
    least_bytes += least.back() * block;
    most_bytes += most.back() * block;
  }
  std::uint64_t const limit = pool_mib << 20;
  if (least_bytes > limit)
    throw std::runtime_error("--pool is " + std::to_string(pool_mib) +
                             " MiB, but four times the largest request takes " +
                             std::to_string((least_bytes >> 20) + 1) +
                             ": raise --pool or lower --tokens");
  double const share = most_bytes <= limit ? 1.0
                                           : static_cast<double>(limit - least_bytes) /
                                                 static_cast<double>(most_bytes - least_bytes);
  std::vector<std::uint32_t> slots;
  for (std::size_t g = 0; g < least.size(); ++g)
    slots.push_back(static_cast<std::uint32_t>(
        least[g] + static_cast<std::uint64_t>(share * static_cast<double>(most[g] - least[g]))));
  return slots;
}

/// Whose bytes a slot must hold.
struct SlotState {
  std::uint64_t request = 0;  ///< id on the wire, which keys the pattern; 0: nobody's
  std::uint64_t block = 0;
  bool undefined = false;  ///< a failed request may have written here
};

/// One thread.
class KvCache {
 public:
  explicit KvCache(PagedPool& pool) : pool_(pool) {
    for (auto const slots : pool.layout().slots()) states_.emplace_back(slots);
    pool.memory().fill(0, pool.layout().bytes(), canary);
    pool.memory().settle();
  }

  /// Tokens at the front of the request whose KV is here already.
  [[nodiscard]] std::uint64_t held_tokens(Request const& r) const {
    auto const end = std::find_if(r.hashes.begin(), r.hashes.end(),
                                  [&](auto hash) { return !holders_.contains(hash); });
    return hash_tokens * static_cast<std::uint64_t>(end - r.hashes.begin());
  }
  [[nodiscard]] std::vector<BlockRange> ranges(Model const& model, Request const& r) const {
    std::vector<BlockRange> out;
    for (auto const& g : model.groups) out.push_back(blocks_needed(g, r.tokens, held_tokens(r)));
    return out;
  }
  /// Blocks for a request, or nothing if there are not enough. From now on later requests count on
  /// its prefix.
  [[nodiscard]] std::optional<BlockTable> take(Request const& r, std::uint64_t id,
                                               std::span<BlockRange const> ranges) {
    auto table = pool_.take(ranges);
    if (table)
      for (auto const hash : r.hashes) holders_.try_emplace(hash, id);
    return table;
  }

  /// It landed: the blocks are its own until they are evicted.
  void landed(Request const& r, std::uint64_t id, BlockTable const& table) {
    for_each_slot(table, [&](auto& state, auto block) { state = {id, block, false}; });
    for (auto const hash : r.hashes) holders_.insert_or_assign(hash, id);
    residents_.push_back({id, r.hashes, table});
  }
  /// It failed, and nothing can write the blocks any more.
  void failed(BlockTable const& table) {
    for_each_slot(table, [&](auto& state, auto) { state = {0, 0, true}; });
    pool_.give_back(table);
  }
  [[nodiscard]] bool must_evict() const {
    for (std::size_t g = 0; g < states_.size(); ++g)
      if (!residents_.empty() && pool_.free_slots(g) < states_[g].size() / 2) return true;
    return false;
  }
  /// Drops the oldest request and puts canaries where it was.
  void evict() {
    auto const& oldest = residents_.front();
    for_each_span(pool_.layout(), oldest.table, [&](auto, auto offset, auto bytes) {
      pool_.memory().fill(offset, bytes, canary);
    });
    pool_.memory().settle();
    for_each_slot(oldest.table, [](auto& state, auto) { state = {}; });
    for (auto const hash : oldest.hashes)
      if (auto const it = holders_.find(hash); it != holders_.end() && it->second == oldest.id)
        holders_.erase(it);
    pool_.give_back(oldest.table);
    residents_.pop_front();
  }
  [[nodiscard]] SlotState const& state(std::size_t group, std::size_t slot) const {
    return states_[group][slot];
  }
  [[nodiscard]] PagedPool const& pool() const { return pool_; }

 private:
  struct Resident {
    std::uint64_t id;
    std::vector<std::uint64_t> hashes;
    BlockTable table;
  };
  template <class F>
  void for_each_slot(BlockTable const& table, F&& f) {
    for (std::size_t g = 0; g < table.size(); ++g)
      for (std::size_t i = 0; i < table[g].slots.size(); ++i)
        f(states_[g][table[g].slots[i]], table[g].first + i);
  }

  PagedPool& pool_;
  std::vector<std::vector<SlotState>> states_;  // per group
  std::deque<Resident> residents_;
  std::unordered_map<std::uint64_t, std::uint64_t>
      holders_;  // hash -> id of the request that brought it
};

}  // namespace demo
