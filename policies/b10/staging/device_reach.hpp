#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <b10/copy/cuda/device_scope.hpp>
#include <b10/copy/cuda/runtime.hpp>
#include <b10/staging/device_memory.hpp>

namespace b10::staging {

/// The arena of a peer's GPU as a GPU of this process reaches it. One thread.
class DeviceReach {
 public:
  /// Opens it for `device`. Nothing, and why, unless the secret is read through it.
  [[nodiscard]] static std::optional<DeviceReach> open(DeviceOffer const& o, int device,
                                                       std::string& why) {
    auto const refuse = [&](std::string text) {
      why = std::move(text);
      return std::nullopt;
    };
    if (o.boot != detail::boot_id()) return refuse("it is on another host");
    copy::cuda::DeviceScope const scope(device);
    if (scope.status() != cudaSuccess)
      return refuse("no GPU: " + copy::cuda::describe(scope.status()));
    void* memory = nullptr;
    bool const same_process = o.pid == static_cast<std::uint64_t>(getpid());
    if (same_process) {
      if (auto const e = let_in(o, device); e != cudaSuccess)
        return refuse("device " + std::to_string(device) +
                      " cannot reach its GPU: " + copy::cuda::describe(e));
      memory = reinterpret_cast<void*>(o.base);
    } else {
      auto const e = cudaIpcOpenMemHandle(&memory, o.handle, cudaIpcMemLazyEnablePeerAccess);
      if (e != cudaSuccess)
        return refuse("device " + std::to_string(device) +
                      " cannot open its staging: " + copy::cuda::describe(e));
    }
    DeviceReach reach(memory, o, device, same_process);
    std::array<char, detail::secret_digits> secret{};
    auto const e = cudaMemcpy(secret.data(), memory, secret.size(), cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) return refuse("its staging cannot be read: " + copy::cuda::describe(e));
    if (std::memcmp(secret.data(), o.secret.data(), secret.size()) != 0)
      return refuse("what it offers as its staging is something else");
    return reach;
  }
  DeviceReach(DeviceReach&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        block_bytes_(other.block_bytes_),
        device_(other.device_),
        same_process_(other.same_process_) {}
  DeviceReach& operator=(DeviceReach&&) = delete;
  ~DeviceReach() {
    if (!memory_ || same_process_) return;
    copy::cuda::DeviceScope const scope(device_);
    if (cudaIpcCloseMemHandle(memory_) != cudaSuccess) (void)cudaGetLastError();
  }

  /// Null unless all of it lies in one block.
  [[nodiscard]] std::byte* at(std::uint64_t place, std::uint64_t bytes) const noexcept {
    if (place < segment_head_bytes || place >= bytes_) return nullptr;
    auto const offset = (place - segment_head_bytes) % block_bytes_;
    if (bytes > block_bytes_ - offset || bytes > bytes_ - place) return nullptr;
    return static_cast<std::byte*>(memory_) + place;
  }

 private:
  DeviceReach(void* memory, DeviceOffer const& o, int device, bool same_process) noexcept
      : memory_(memory),
        bytes_(o.bytes),
        block_bytes_(o.block_bytes),
        device_(device),
        same_process_(same_process) {}

  /// Lets this process's `device` write the GPU that the arena is on.
  static cudaError_t let_in(DeviceOffer const& o, int device) noexcept {
    cudaPointerAttributes found{};
    auto e = cudaPointerGetAttributes(&found, reinterpret_cast<void*>(o.base));
    if (e != cudaSuccess) return e;
    if (found.type != cudaMemoryTypeDevice) return cudaErrorInvalidValue;
    if (found.device == device) return cudaSuccess;
    e = cudaDeviceEnablePeerAccess(found.device, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      e = cudaSuccess;
    }
    return e;
  }

  void* memory_;
  std::uint64_t bytes_;
  std::uint64_t block_bytes_;
  int device_;
  bool same_process_;
};

}  // namespace b10::staging
