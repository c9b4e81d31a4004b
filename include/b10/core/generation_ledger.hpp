#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>

#include <b10/types.hpp>

namespace b10::core {

/// The highest generation used in each pair domain, so that none is ever used twice. It outlives
/// links, endpoints and rebuilds of a lane's peers; a domain ends with the incarnation that it
/// names, so nothing has to outlive the process. One entry a domain, kept for ever: a domain that
/// was forgotten could repeat. One thread.
class GenerationLedger {
 public:
  /// 0 if none.
  [[nodiscard]] Generation last(PairDomain domain) const noexcept {
    auto const it = used_.find(domain);
    return Generation{it == used_.end() ? 0 : it->second.last};
  }

  /// The generation after all that this side has used and after `floor`, the highest of the other
  /// side. It is not recorded yet. Nothing when that would wrap around 2^32: this pair needs a new
  /// incarnation (restart one process).
  [[nodiscard]] std::optional<Generation> next(PairDomain domain, Generation floor) const noexcept {
    auto const above = std::max(to_integer(last(domain)), to_integer(floor));
    if (above == std::numeric_limits<decltype(above)>::max()) return std::nullopt;
    return Generation{above + 1};
  }

  /// Records that a link of this generation exists. False, and nothing recorded, unless it is above
  /// all before.
  [[nodiscard]] bool use(PairDomain domain, Generation generation) {
    auto const n = to_integer(generation);
    auto& [last, recent] = used_[domain];
    if (n <= last) return false;
    recent = n - last < window ? recent << (n - last) | 1u : 1u;
    last = n;
    return true;
  }
  /// The same for one that a newer one has overtaken on its way. False, and nothing recorded, if it
  /// was used before or that cannot be told any more: such a link must be refused.
  [[nodiscard]] bool use_overtaken(PairDomain domain, Generation generation) {
    auto const n = to_integer(generation);
    auto& [last, recent] = used_[domain];
    if (n == 0 || n >= last || last - n >= window) return false;
    auto const bit = std::uint64_t{1} << (last - n);
    if ((recent & bit) != 0) return false;
    recent |= bit;
    return true;
  }

 private:
  static constexpr std::uint32_t window = 64;
  struct Used {
    std::uint32_t last = 0;
    std::uint64_t recent = 0;  ///< bit i: last - i was used
  };
  std::unordered_map<PairDomain, Used> used_{};
};

}  // namespace b10::core
