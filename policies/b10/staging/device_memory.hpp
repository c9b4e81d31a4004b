#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <b10/copy/cuda/device_scope.hpp>
#include <b10/copy/cuda/runtime.hpp>
#include <b10/outcome.hpp>
#include <b10/staging/block_memory.hpp>
#include <b10/staging/offer_words.hpp>
#include <b10/staging/shared_segment.hpp>

namespace b10::staging {

/// What a process needs to reach staging in the memory of another one's GPU.
struct DeviceOffer {
  std::string boot{};      ///< of the running system
  std::uint64_t pid = 0;   ///< the same as ours: no handle is needed, nor would CUDA open one
  std::uint64_t base = 0;  ///< address in that process
  cudaIpcMemHandle_t handle{};
  std::uint64_t bytes = 0;        ///< of the whole arena
  std::uint64_t block_bytes = 0;  ///< from one block to the next
  std::string secret{};           ///< which the arena starts with
};

[[nodiscard]] inline std::string encode(DeviceOffer const& o) {
  std::array<unsigned char, sizeof o.handle> handle{};
  std::memcpy(handle.data(), &o.handle, sizeof o.handle);
  std::string text = "cuda";
  add_word(text, o.boot);
  for (auto const value : {o.pid, o.base, o.bytes, o.block_bytes}) add_word(text, value);
  add_word(text, hex(handle.data(), handle.size()));
  add_word(text, o.secret);
  return text;
}

/// nullopt for anything else than such a text (hostile input).
[[nodiscard]] inline std::optional<DeviceOffer> decode_device_offer(std::string_view text) {
  OfferWords in(text);
  bool good = in.word() == "cuda";
  DeviceOffer o;
  o.boot = in.word();
  for (auto* const to : {&o.pid, &o.base, &o.bytes, &o.block_bytes}) *to = in.number();
  std::array<unsigned char, sizeof o.handle> handle{};
  good &= unhex(in.word(), handle.data(), handle.size());
  std::memcpy(&o.handle, handle.data(), sizeof o.handle);
  o.secret = in.word();
  good &= in.good() && o.secret.size() == detail::secret_digits && o.block_bytes > 0 &&
          o.bytes >= segment_head_bytes && o.bytes <= std::uint64_t{1} << 46;
  if (!good) return std::nullopt;
  return o;
}

/// Blocks of one allocation of GPU memory that peers on this host write over NVLink or PCIe. A
/// block's place is used once: memory that a peer has mapped cannot be given back to the driver, so
/// what is freed is lost until the arena dies, and only `lives` times the blocks can ever be had.
/// One thread at a time, any thread.
class DeviceMemory {
 public:
  struct Options {
    int device = -1;              ///< CUDA ordinal; -1: the current one of the constructing thread
    std::size_t block_bytes = 0;  ///< as allocate() will be asked for
    std::uint64_t blocks = 0;
    std::uint64_t lives = 1;
  };

  /// Throws Error{refused}.
  explicit DeviceMemory(Options const& o)
      : device_(current_if_none(o.device)),
        stride_((o.block_bytes + alignment - 1) / alignment * alignment) {
    copy::cuda::DeviceScope const scope(device_);
    copy::cuda::require(scope.status(), Reason::refused,
                        "cannot use CUDA device " + std::to_string(device_) + " for staging");
    offer_.boot = detail::boot_id();
    offer_.pid = static_cast<std::uint64_t>(getpid());
    offer_.bytes = segment_head_bytes + stride_ * o.blocks * o.lives;
    offer_.block_bytes = stride_;
    offer_.secret = detail::new_secret();
    void* memory = nullptr;
    copy::cuda::require(cudaMalloc(&memory, offer_.bytes), Reason::refused,
                        "cannot allocate " + std::to_string(offer_.bytes) +
                            " bytes of staging on device " + std::to_string(device_) +
                            " (lower buffers, buffer_bytes or lives)");
    arena_ = copy::cuda::DeviceBytes(memory);
    offer_.base = reinterpret_cast<std::uintptr_t>(memory);
    copy::cuda::require(cudaIpcGetMemHandle(&offer_.handle, memory), Reason::refused,
                        "cannot share staging on device " + std::to_string(device_));
    copy::cuda::require(
        cudaMemcpy(memory, offer_.secret.data(), offer_.secret.size(), cudaMemcpyHostToDevice),
        Reason::refused, "cannot write staging on device " + std::to_string(device_));
  }
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  /// Blocks that were not freed may still be written: then the arena stays.
  ~DeviceMemory() {
    if (blocks_ > 0) arena_.keep();
  }

  [[nodiscard]] std::byte* allocate(std::size_t bytes) {
    if (offer_.bytes - next_ < stride_)
      throw Error(
          Reason::refused,
          "cannot replace a staging block of " + std::to_string(bytes) +
              " bytes: each place of the arena has been used once; raise lives, or restart");
    auto* const block = static_cast<std::byte*>(arena_.get()) + next_;
    next_ += stride_;
    ++blocks_;
    return block;
  }
  void free(std::byte*, std::size_t) noexcept { --blocks_; }

  [[nodiscard]] DeviceOffer const& offer() const noexcept { return offer_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Where in the arena an address is [bytes].
  [[nodiscard]] std::uint64_t place(std::byte const* address) const noexcept {
    return static_cast<std::uint64_t>(address - static_cast<std::byte*>(arena_.get()));
  }

 private:
  static constexpr std::size_t alignment = 4096;

  static int current_if_none(int device) {
    if (device < 0)
      copy::cuda::require(cudaGetDevice(&device), Reason::refused, "there is no CUDA device");
    return device;
  }

  int device_;
  std::size_t stride_;
  DeviceOffer offer_{};
  copy::cuda::DeviceBytes arena_{};
  std::uint64_t next_ = segment_head_bytes;
  std::size_t blocks_ = 0;
};

static_assert(BlockMemory<DeviceMemory>);

}  // namespace b10::staging
