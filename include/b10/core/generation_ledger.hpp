#pragma once

#include <algorithm>
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
    auto const it = last_.find(domain);
    return it == last_.end() ? Generation{0} : it->second;
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
  /// all before: such a link must be refused.
  [[nodiscard]] bool use(PairDomain domain, Generation generation) {
    if (to_integer(generation) <= to_integer(last(domain))) return false;
    last_.insert_or_assign(domain, generation);
    return true;
  }

 private:
  std::unordered_map<PairDomain, Generation> last_{};
};

}  // namespace b10::core
