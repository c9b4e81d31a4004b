// Pools on one GPU or two, compared there.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../gpu/device_pool.hpp"
#include "pools.hpp"

namespace b10::bench {

namespace {

constexpr std::uint64_t source_seed = 0x243f'6a88'85a3'08d3u;
constexpr std::uint64_t canary_seed = 0x1319'8a2e'0370'7344u;

class GpuPools : public Pools {
 public:
  GpuPools(Workload const& w, int sender_gpu, int receiver_gpu)
      : Pools(w),
        from_(sender_gpu, source_.pool_bytes(), source_seed),
        to_(receiver_gpu, destination_.pool_bytes(), canary_seed),
        landings_(receiver_gpu, landings()) {
    prove_check();
  }
  [[nodiscard]] LocalSpan destination() const override { return to_.span(); }
  [[nodiscard]] std::uint64_t wrong_words(std::size_t set) override {
    auto const s = set % sets;
    Wrong wrong = to_.take(landings_, first_[s], first_[s + 1] - first_[s], source_seed);
    wrong.add(to_.compare());
    if (wrong.words > 0) to_.fill();
    return wrong.words;
  }

 private:
  static constexpr std::uint64_t landing_bytes_max = 16 << 10;

  [[nodiscard]] LocalSpan source() const override { return from_.span(); }
  std::vector<Landing> landings() {
    std::vector<Landing> out;
    for (std::size_t s = 0; s < sets; ++s) {
      first_.push_back(out.size());
      auto const& from = source_.set(s);
      auto const& to = destination_.set(s);
      for (std::size_t i = 0; i < to.size(); ++i) {
        for (std::uint64_t at = 0; at < to[i].bytes; at += landing_bytes_max)
          out.push_back({(to[i].offset + at) / word_bytes, (from[i].offset + at) / word_bytes,
                         std::min(landing_bytes_max, to[i].bytes - at) / word_bytes});
      }
    }
    first_.push_back(out.size());
    return out;
  }

  DevicePool from_;
  DevicePool to_;
  std::vector<std::size_t> first_{};  // landings of each set; before landings_, which fills it
  DeviceLandings landings_;
};

}  // namespace

std::unique_ptr<Pools> make_gpu_pools(Workload const& w, int sender_gpu, int receiver_gpu) {
  return std::make_unique<GpuPools>(w, sender_gpu, receiver_gpu);
}

}  // namespace b10::bench
