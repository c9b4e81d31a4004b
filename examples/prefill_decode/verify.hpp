// Looks at every byte of the pool, not only at those that were to be written.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "common/pattern.hpp"
#include "kv_cache.hpp"

namespace demo {

struct Verdict {
  std::uint64_t landed_bytes = 0;     ///< equal to what was sent
  std::uint64_t untouched_bytes = 0;  ///< canary where nobody was to write
  std::uint64_t undefined_bytes = 0;  ///< free blocks of a failed request
  std::string wrong{};                ///< the first wrong byte; empty: none
};

namespace detail {

inline std::string describe(KvCache const& cache, Region const& region, std::size_t slot,
                            std::size_t at) {
  auto const& state = cache.state(region.group, slot);
  return "byte " + std::to_string(at) + " of slot " + std::to_string(slot) + ", group " +
         std::to_string(region.group) + ", layer " + std::to_string(region.layer) + ", part " +
         std::to_string(region.part) +
         (state.request == 0 ? " was to stay untouched"
                             : " is not what request " + std::to_string(state.request) + " sent");
}

inline Verdict verify_region(KvCache const& cache, std::size_t index,
                             std::vector<std::byte>& buffer) {
  auto const& region = cache.pool().layout().regions()[index];
  auto const slots = cache.pool().layout().slots()[region.group];
  auto const all = cache.pool().memory().read(region.begin, slots * region.stride, buffer);
  Verdict out;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    auto const& state = cache.state(region.group, slot);
    auto const bytes = all.subspan(slot * region.stride, region.stride);
    if (state.undefined) {
      out.undefined_bytes += bytes.size();
      continue;
    }
    auto const wrong =
        state.request == 0
            ? not_canary(bytes)
            : Pattern(state.request, span_name(index, state.block)).difference(bytes);
    if (wrong && out.wrong.empty()) out.wrong = describe(cache, region, slot, *wrong);
    (state.request == 0 ? out.untouched_bytes : out.landed_bytes) += bytes.size();
  }
  return out;
}

}  // namespace detail

/// The whole pool and its margins, by two threads. Nothing may be under way.
inline Verdict verify(KvCache const& cache) {
  auto const& layout = cache.pool().layout();
  Verdict sum;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    std::vector<std::byte> buffer;
    for (std::size_t i; (i = next++) < layout.regions().size();) {
      auto const part = detail::verify_region(cache, i, buffer);
      std::lock_guard const lock(mutex);
      sum.landed_bytes += part.landed_bytes;
      sum.untouched_bytes += part.untouched_bytes;
      sum.undefined_bytes += part.undefined_bytes;
      if (sum.wrong.empty()) sum.wrong = part.wrong;
    }
  };
  auto helper = std::async(std::launch::async, work);
  work();
  helper.get();
  std::vector<std::byte> buffer;
  for (auto const begin : layout.margins()) {
    auto const bytes = cache.pool().memory().read(begin, PoolLayout::margin, buffer);
    if (auto const wrong = not_canary(bytes); wrong && sum.wrong.empty())
      sum.wrong =
          "byte " + std::to_string(*wrong) + " of a margin around the pool was to stay untouched";
    sum.untouched_bytes += PoolLayout::margin;
  }
  return sum;
}

/// For tests of the above: damages one byte.
inline void corrupt(KvCache const& cache, std::string const& what) {
  auto const& pool = cache.pool();
  auto const flip = [&](std::uint64_t offset) {
    std::vector<std::byte> buffer;
    auto const byte = pool.memory().read(offset, 1, buffer)[0];
    pool.memory().fill(offset, 1, byte ^ std::byte{1});
    pool.memory().settle();
  };
  if (what == "margin") return flip(pool.layout().margins().back() + PoolLayout::margin - 1);
  auto const& region = pool.layout().regions().back();
  for (std::size_t slot = 0; slot < pool.layout().slots()[region.group]; ++slot) {
    auto const& state = cache.state(region.group, slot);
    if (!state.undefined && (state.request != 0) == (what == "block"))
      return flip(region.begin + slot * region.stride + region.stride - 1);
  }
}

}  // namespace demo
