// Device memory that says of each of its words whether it is what it should be: filled and compared
// by kernels, so that whole pools are checked after every transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <b10/types.hpp>

namespace b10::bench {

inline constexpr std::uint64_t word_bytes = 8;

/// What one WRITE should do: words `to`.. of the destination pool become words `from`.. of the
/// source pool.
struct Landing {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t words;
};

/// Words that are not what they should be.
struct Wrong {
  std::uint64_t words = 0;
  std::uint64_t first = ~std::uint64_t{0};  ///< position in the pool of the first one; if any
  void add(Wrong const& other) {
    words += other.words;
    first = other.first < first ? other.first : first;
  }
};

/// Landings in device memory, for DevicePool::take(). One warp does each, so they should be short:
/// a few KiB. Throws std::runtime_error naming the GPU and CUDA's reason, as all of this file does.
class DeviceLandings {
 public:
  DeviceLandings(int device, std::span<Landing const> landings);
  DeviceLandings(DeviceLandings const&) = delete;
  DeviceLandings& operator=(DeviceLandings const&) = delete;
  ~DeviceLandings();
  [[nodiscard]] Landing const* data() const { return data_; }

 private:
  Landing* data_ = nullptr;
};

/// Word i of a pool is a hash of (seed, i). All calls wait for their end; they order themselves
/// behind nothing, so call them while no copy is under way. One thread.
class DevicePool {
 public:
  /// Makes `device` current and fills the pool. `bytes`: a multiple of 8.
  DevicePool(int device, std::uint64_t bytes, std::uint64_t seed);
  DevicePool(DevicePool const&) = delete;
  DevicePool& operator=(DevicePool const&) = delete;
  ~DevicePool();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] LocalSpan span() const { return {data_, bytes_, Device{device_}}; }

  /// Makes every word its hash again.
  void fill();
  /// Compares every word with its hash.
  [[nodiscard]] Wrong compare();
  /// Compares the words of landings first.. with those of a source pool of that seed, then makes
  /// them their own hash again. Followed by compare() every word of the pool has been checked once,
  /// and the pool is as fill() leaves it if none was wrong.
  [[nodiscard]] Wrong take(DeviceLandings const& all, std::size_t first, std::size_t count,
                           std::uint64_t source_seed);
  /// Changes one word, to see that it is noticed.
  void spoil(std::uint64_t word);

 private:
  [[nodiscard]] std::uint64_t words() const { return bytes_ / word_bytes; }
  void begin_count();
  [[nodiscard]] Wrong end_count(char const* what);

  int device_;
  std::uint64_t bytes_;
  std::uint64_t seed_;
  std::byte* data_ = nullptr;
  Wrong* wrong_ = nullptr;  // in device memory
};

}  // namespace b10::bench
