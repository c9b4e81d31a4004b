#pragma once

#include <cstdint>

#include <b10/device/copy_spans.hpp>

namespace b10::device {

/// A warp copies one window of the contiguous side at a time: 32 lanes, each with four independent
/// 16-byte loads under way.
inline constexpr std::uint32_t window_bytes = 32 * 16 * 4;

/// The shape of one launch.
struct Launch {
  std::uint32_t blocks = 1;  ///< at most so many; fewer if there are fewer windows
  int threads = 256;         ///< a multiple of 32 in 64..1024
};

/// What is chosen for one family of devices.
struct Tuning {
  int scratch_threads;
  std::uint32_t scratch_windows;  ///< a block of a scratch copy takes so many windows
  int pinned_threads;
  std::uint32_t pinned_blocks_large;   ///< pieces of 16 KiB and more on average
  std::uint32_t pinned_blocks_middle;  ///< pieces of 2 KiB and more
  std::uint32_t pinned_blocks_small;
};

// One window a warp: the finest grain lets blocks slip in beside other work and gives even a slice
// of 4 MiB two blocks an SM. PCIe 4 (A100) needs half the SMs that PCIe 5 does.
inline constexpr Tuning sm80{256, 8, 1024, 6, 12, 24};
inline constexpr Tuning sm90{256, 8, 1024, 8, 16, 32};
inline constexpr Tuning sm100{256, 8, 1024, 8, 16, 32};

/// For a device of this compute capability's major number (8, 9, 10 ...); older ones as sm80.
[[nodiscard]] constexpr Tuning tuning_for(int major) noexcept {
  return major >= 10 ? sm100 : major == 9 ? sm90 : sm80;
}

[[nodiscard]] constexpr Launch launch_for(Tuning const& t, Layout const& layout,
                                          Reach reach) noexcept {
  std::uint64_t const average = layout.pieces == 0 ? 0 : layout.bytes / layout.pieces;
  if (reach == Reach::pinned) {
    return {average >= 16 * 1024  ? t.pinned_blocks_large
            : average >= 2 * 1024 ? t.pinned_blocks_middle
                                  : t.pinned_blocks_small,
            t.pinned_threads};
  }
  std::uint64_t const block_bytes = std::uint64_t{t.scratch_windows} * window_bytes;
  std::uint64_t const blocks =
      layout.bytes / block_bytes + 1;  // one more if the start is unaligned
  return {blocks < 0x7fff'ffff ? static_cast<std::uint32_t>(blocks) : 0x7fff'ffff,
          t.scratch_threads};
}

}  // namespace b10::device
