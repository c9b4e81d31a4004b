#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <b10/core/fence.hpp>
#include <b10/hello.hpp>
#include <b10/transport.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// The transfers of one sender that have been here: a floor below which all have, and the few above
/// it. An id is accepted once, so a replayed CONTROL never runs again.
class SeenTransfers {
 public:
  /// False if it was here before.
  bool insert(TransferId id) {
    std::uint64_t const n = to_integer(id) >> 1;  // the lowest bit tells the side, not the order
    if (n <= floor_ || !above_.insert(n).second) return false;
    // A gap that is never filled must not make this grow: ids come in order except for a lost
    // CONTROL.
    if (above_.size() > gap_max) floor_ = *above_.begin();
    while (!above_.empty() && *above_.begin() <= floor_ + 1) {
      floor_ = *above_.begin() > floor_ ? *above_.begin() : floor_;
      above_.erase(above_.begin());
    }
    return true;
  }

 private:
  static constexpr std::size_t gap_max = 4096;
  std::uint64_t floor_ = 0;
  std::set<std::uint64_t> above_;
};

/// A remote node by name, over all its links.
template <class Endpoint, class Receive>
struct Peer {
  PeerId id{};
  std::string name{};
  std::string address{};  ///< where to reconnect; empty: it must come to us
  Incarnation incarnation{};
  Endpoint* current = nullptr;  ///< the live endpoint, if any
  std::uint64_t transfers_sent = 0;
  SeenTransfers seen{};
  std::unordered_map<TransferId, Receive*> receiving{};

  ConnectId connecting{};  ///< 0: no attempt under way
  std::uint64_t connects_failed = 0;
  std::string connect_error{};
  std::vector<Fence*> waiting{};  ///< sends that wait for a link

  void wake_all() {
    for (Fence* f : waiting) f->wake();
    waiting.clear();
  }
};

}  // namespace b10::core
