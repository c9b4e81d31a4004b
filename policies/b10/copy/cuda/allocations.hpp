#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <b10/copy/cuda/runtime.hpp>
#include <b10/types.hpp>

namespace b10::copy::cuda {

/// Knows where device memory is: a kernel that follows a wrong address takes the whole process's
/// CUDA context with it, so no address reaches one unchecked. Asks the driver once for a run of
/// spans in one allocation, which costs a comparison a span after the first. One thread.
class Allocations {
 public:
  /// Takes the driver's functions from the runtime, so that nothing links libcuda. Throws Error.
  Allocations() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    require(cudaGetDriverEntryPointByVersion("cuPointerGetAttributes", &function, 12000,
                                             cudaEnableDefault, &found),
            Reason::refused, "the CUDA driver has no cuPointerGetAttributes");
    ask_ = reinterpret_cast<Ask>(function);
  }

  /// Forgets what was learnt: before each copy, because memory may have been freed since the last.
  void forget() noexcept { begin_ = end_ = 0; }

  /// Throws Error{copy_failed} unless every byte is memory of `device`.
  void require_within(std::byte const* address, std::uint64_t bytes, int device) {
    auto const first = reinterpret_cast<std::uintptr_t>(address);
    if (device == device_ && first >= begin_ && first <= end_ && bytes <= end_ - first) return;
    for (std::uint64_t at = 0; at < bytes;) {  // an allocation may be mapped in several parts
      learn(first + at, device, address, bytes);
      auto const rest = end_ - (first + at);
      if (rest >= bytes - at) return;
      at += rest;
    }
  }

 private:
  using Ask = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);

  void learn(std::uintptr_t at, int device, std::byte const* address, std::uint64_t bytes) {
    unsigned type = 0;
    int owner = -1;
    CUdeviceptr begin = 0;
    std::size_t size = 0;
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* values[] = {&type, &owner, &begin, &size};
    auto const result = ask_(4, what, values, static_cast<CUdeviceptr>(at));
    if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE || owner != device || at < begin ||
        at - begin >= size)
      refuse(at, device, address, bytes, type, owner);
    device_ = device;
    begin_ = begin;
    end_ = begin + size;
  }
  [[noreturn]] static void refuse(std::uintptr_t at, int device, std::byte const* address,
                                  std::uint64_t bytes, unsigned type, int owner) {
    auto const number = [](auto x) { return std::to_string(x); };
    std::string const found = type == CU_MEMORYTYPE_DEVICE ? "memory of device " + number(owner)
                              : type != 0                  ? "host memory"
                                                           : "no memory that CUDA knows";
    throw Error(Reason::copy_failed,
                "a span of " + number(bytes) + " bytes at " +
                    number(reinterpret_cast<std::uintptr_t>(address)) +
                    " is said to be on device " + number(device) + ", but byte " +
                    number(at - reinterpret_cast<std::uintptr_t>(address)) + " of it is " + found);
  }

  Ask ask_ = nullptr;
  int device_ = -1;
  std::uintptr_t begin_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace b10::copy::cuda
