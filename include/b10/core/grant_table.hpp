#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/core/memory_map.hpp>
#include <b10/grant.hpp>

namespace b10::core {

/// The memory map plus who listens to each grant. Shared by a transceiver, its lane and its grants.
/// Thread-safe; never taken per chunk.
class GrantTable {
 public:
  explicit GrantTable(Grants mode) : map_(mode) {}

  [[nodiscard]] MemoryMap& map() noexcept { return map_; }

  /// `set_up` completes the record before any peer can use it. One lock around both tables, so that
  /// a permission is never seen without its listener.
  template <class SetUp>
  std::shared_ptr<GrantRecord> grant(RequestId request, std::span<LocalSpan const> spans,
                                     std::optional<PeerId> only_from, Instant expires,
                                     SetUp&& set_up) {
    std::lock_guard lock(mutex_);
    auto record =
        std::make_shared<GrantRecord>(request, map_.grant(request, spans, only_from, expires),
                                      std::vector<LocalSpan>(spans.begin(), spans.end()));
    set_up(*record);
    records_[request] = record;
    return record;
  }
  /// The record of a permission that the map gave; one without listeners if it came from registered
  /// mode.
  [[nodiscard]] std::shared_ptr<GrantRecord> record(RequestId request,
                                                    std::shared_ptr<GrantState> const& state) {
    {
      std::lock_guard lock(mutex_);
      auto const it = records_.find(request);
      if (it != records_.end() && it->second->state == state) return it->second;
    }
    return std::make_shared<GrantRecord>(request, state, std::vector<LocalSpan>{});
  }
  void forget(RequestId request) noexcept {
    std::lock_guard lock(mutex_);
    map_.forget(request);
    records_.erase(request);
  }

 private:
  MemoryMap map_;
  std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<GrantRecord>> records_;
};

}  // namespace b10::core
