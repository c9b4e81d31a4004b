// One configuration beside the default one, in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <b10/steady_clock.hpp>

#include "../report.hpp"
#include "../workloads.hpp"
#include "configuration.hpp"
#include "pools.hpp"

namespace b10::bench {

/// A workload and how often it is moved.
struct Load {
  Workload workload;
  std::size_t repeats;
};

/// A pair of nodes that moves sets of pools and has every byte checked.
class Mover {
 public:
  Mover(Configuration const& c, PairOptions const& o) : pair_(c.open(o)), name_(c.name()) {}

  /// Before the first move within these pools; they must outlive this.
  void may_write(Pools const& pools) { pair_->register_memory(pools.destination()); }
  /// Seconds from the call until both ranks know that it has landed. Throws std::runtime_error if
  /// it has not, or if a byte is wrong.
  double move(Pools& pools) {
    auto const set = moved_ % Pools::sets;
    RequestId const request{++moved_};
    auto const sources = pools.sources(set);
    auto const destinations = pools.destinations(set);
    std::vector<RemoteSpan> remote;
    remote.reserve(destinations.size());
    for (auto const& d : destinations) remote.push_back(as_remote(d));
    auto const grant = pair_->grant(request, destinations);
    auto const start = steady_now();
    auto const transfer = pair_->write(request, sources, remote);
    auto const sent = transfer.wait(seconds(31));
    auto const landed = grant.next(seconds(31));
    auto const time = (steady_now() - start).seconds();
    require(sent && sent->ok(), sent ? sent->why : "the sender has no outcome");
    require(landed && landed->ok(), landed ? landed->why : "the receiver has no outcome");
    auto const wrong = pools.wrong_words(set);
    require(wrong == 0, std::to_string(wrong) + " words of the pool are wrong");
    return time;
  }
  [[nodiscard]] Pair& pair() { return *pair_; }

 private:
  void require(bool good, std::string const& why) const {
    if (!good) throw std::runtime_error(name_ + ": " + why);
  }

  std::unique_ptr<Pair> pair_;
  std::string name_;
  std::uint64_t moved_ = 0;
};

/// Seconds of neighbours in time: what the machine does meanwhile hits both.
struct Measured {
  std::vector<double> own{};
  std::vector<double> of_default{};
};

/// Moves once each to warm up, then in turn. The default one itself has no neighbour.
inline Measured measure(Mover& own, Mover* of_default, Pools& pools, std::size_t repeats) {
  Measured m;
  for (std::size_t i = 0; i <= repeats; ++i) {
    double const base = of_default ? of_default->move(pools) : 0;
    double const time = own.move(pools);
    if (i == 0) continue;
    m.own.push_back(time);
    m.of_default.push_back(of_default ? base : time);
  }
  return m;
}

}  // namespace b10::bench
