// The KV pools of both ranks, filled and compared whole: after each transfer every byte of the
// destination pool is looked at, those that must have arrived and those that must not have changed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <b10/types.hpp>

#include "../workloads.hpp"

namespace b10::bench {

class Pools {
 public:
  explicit Pools(Workload const& w) : source_(w, sets, 1), destination_(w, sets, 2) {}
  Pools(Pools const&) = delete;
  Pools& operator=(Pools const&) = delete;
  virtual ~Pools() = default;

  /// Disjoint transfers that the pools hold, so that input comes from no cache.
  static constexpr std::size_t sets = 2;

  [[nodiscard]] virtual LocalSpan destination() const = 0;
  [[nodiscard]] std::vector<LocalSpan> sources(std::size_t set) const {
    return spans_of(source_.set(set), source());
  }
  [[nodiscard]] std::vector<LocalSpan> destinations(std::size_t set) const {
    return spans_of(destination_.set(set), destination());
  }
  /// Words of 8 bytes in the destination pool that are not as a transfer of this set must leave
  /// them, its spans and all others. Afterwards no span has its bytes any more.
  [[nodiscard]] virtual std::uint64_t wrong_words(std::size_t set) = 0;

 protected:
  [[nodiscard]] virtual LocalSpan source() const = 0;
  /// A check that finds nothing proves nothing unless it would find something. To be called at the
  /// end of construction.
  void prove_check() {
    std::uint64_t bytes = 0;
    for (Piece const& p : destination_.set(0)) bytes += p.bytes;
    auto const missing = wrong_words(0);  // nothing has landed
    if (missing != bytes / 8)
      throw std::runtime_error("the check of the pools does not work: it misses " +
                               std::to_string(missing) + " words instead of " +
                               std::to_string(bytes / 8));
  }

  Layout source_;
  Layout destination_;

 private:
  [[nodiscard]] static std::vector<LocalSpan> spans_of(std::vector<Piece> const& pieces,
                                                       LocalSpan const& pool) {
    std::vector<LocalSpan> out;
    out.reserve(pieces.size());
    for (Piece const& p : pieces) out.push_back({pool.address + p.offset, p.bytes, pool.device});
    return out;
  }
};

class HostPools : public Pools {
 public:
  explicit HostPools(Workload const& w)
      : Pools(w), from_(source_.pool_bytes() / 8), to_(destination_.pool_bytes() / 8, canary) {
    contents_.fill(source().address, 0, source_.pool_bytes());
    prove_check();
  }
  [[nodiscard]] LocalSpan destination() const override { return span_of(to_); }
  [[nodiscard]] std::uint64_t wrong_words(std::size_t set) override {
    auto const& from = source_.set(set);
    auto const& to = destination_.set(set);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto* const at = destination().address + to[i].offset;
      if (!contents_.matches(at, from[i].offset, to[i].bytes)) wrong += to[i].bytes / 8;
      std::fill_n(to_.begin() + static_cast<std::ptrdiff_t>(to[i].offset / 8), to[i].bytes / 8,
                  canary);
    }
    for (auto& word : to_) {
      wrong += word != canary;
      word = canary;
    }
    return wrong;
  }

 private:
  static constexpr std::uint64_t canary = 0xa5a5'a5a5'a5a5'a5a5u;
  using Words = std::vector<std::uint64_t>;

  [[nodiscard]] LocalSpan source() const override { return span_of(from_); }
  [[nodiscard]] static LocalSpan span_of(Words const& words) {
    auto* const first = const_cast<std::uint64_t*>(words.data());  // B10 writes the destination
    return {reinterpret_cast<std::byte*>(first), words.size() * 8};
  }

  Contents contents_{7};
  Words from_;
  Words to_;
};

/// Implemented where CUDA is. Throws std::runtime_error.
[[nodiscard]] std::unique_ptr<Pools> make_gpu_pools(Workload const& w, int sender_gpu,
                                                    int receiver_gpu);

}  // namespace b10::bench
