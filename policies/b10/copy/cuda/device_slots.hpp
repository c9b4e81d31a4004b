#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <b10/copy/cuda/device_scope.hpp>
#include <b10/copy/cuda/runtime.hpp>

namespace b10::copy::cuda {

class DeviceSlots;

/// What one copy under way needs on one device. It belongs to that copy until its event has fired.
struct Slot {
  DeviceSlots* home = nullptr;
  Event ended{};                      ///< recorded after the copy's last step
  Event between{};                    ///< orders a copy's kernel and its DMA
  std::byte* table = nullptr;         ///< pinned memory for the kernel's list of spans
  std::byte* scratch = nullptr;       ///< device memory of one slice, if the engine uses any
  cudaError_t error = cudaSuccess;    ///< of a step that could not be queued after others were
  Slot* next = nullptr;               ///< the same copy on another device
  unsigned way = 0;                   ///< which of the DMA streams it uses
  std::uint64_t* partials = nullptr;  ///< pinned memory for the parts of a digest
  std::uint32_t partial_count = 0;    ///< how many of them the copy under way writes
};

/// What a pool of slots is made of.
struct SlotsOptions {
  int device = 0;
  unsigned slots = 0;
  std::size_t table_bytes = 0;
  std::size_t scratch_bytes = 0;
  std::uint32_t partials = 0;  ///< of a digest
  bool high_priority = false;
};

/// A copy engine's streams and slots on one device; everything is made at the start, so that no
/// copy asks the driver for memory. Gathers and scatters have streams of their own, and so have
/// kernels and DMA: a slice is gathered while the one before it crosses the bus, and neither
/// direction waits for the other. One thread.
class DeviceSlots {
 public:
  /// Throws Error{refused} naming what could not be had, how much of it, and the knob.
  explicit DeviceSlots(SlotsOptions const& o) : device_(o.device), slots_(o.slots) {
    DeviceScope const on(device_);
    auto const where = " on device " + std::to_string(device_);
    require(on.status(), Reason::refused, "cannot use CUDA" + where);
    int least = 0;
    int greatest = 0;
    require(cudaDeviceGetStreamPriorityRange(&least, &greatest), Reason::refused,
            "cannot ask for stream priorities" + where);
    for (Stream* s : {&gather_kernels, &gather_dma[0], &gather_dma[1], &scatter_dma[0],
                      &scatter_dma[1], &scatter_kernels}) {
      cudaStream_t stream = nullptr;
      require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                           o.high_priority ? greatest : least),
              Reason::refused, "cannot create a stream" + where);
      *s = Stream(stream);
    }
    allocate(o, where);
    free_.reserve(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) make(slots_[i], i, o, where);
  }
  DeviceSlots(DeviceSlots const&) = delete;
  DeviceSlots& operator=(DeviceSlots const&) = delete;
  /// Copies that have not ended keep their memory for ever: nobody waits here, and the driver
  /// would.
  ~DeviceSlots() {
    if (free_.size() == slots_.size()) return;
    scratch_.keep();
    tables_.keep();
  }

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] bool any_free() const noexcept { return !free_.empty(); }
  /// Only when one is free.
  [[nodiscard]] Slot* take() noexcept {
    Slot* const slot = free_.back();
    free_.pop_back();
    slot->error = cudaSuccess;
    slot->next = nullptr;
    slot->partial_count = 0;
    return slot;
  }
  void give_back(Slot* slot) noexcept { free_.push_back(slot); }

  Stream gather_kernels{};
  // Two a direction, taken in turn: while one copy ends the next has begun.
  std::array<Stream, 2> gather_dma{};
  std::array<Stream, 2> scatter_dma{};
  Stream scatter_kernels{};

 private:
  void allocate(SlotsOptions const& o, std::string const& where) {
    auto const knob = " (Options::slots is " + std::to_string(o.slots) + ")";
    void* memory = nullptr;
    if (o.scratch_bytes > 0) {
      auto const bytes = o.scratch_bytes * o.slots;
      require(cudaMalloc(&memory, bytes), Reason::refused,
              "cannot allocate " + std::to_string(bytes) + " bytes of scratch" + where + knob);
      scratch_ = DeviceBytes(memory);
    }
    if (o.table_bytes > 0) {
      auto const bytes = (o.table_bytes + o.partials * sizeof(std::uint64_t)) * o.slots;
      require(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), Reason::refused,
              "cannot pin " + std::to_string(bytes) + " bytes of span tables" + where + knob);
      tables_ = PinnedBytes(memory);
    }
  }
  void make(Slot& slot, std::size_t i, SlotsOptions const& o, std::string const& where) {
    slot.home = this;
    slot.way = static_cast<unsigned>(i % gather_dma.size());
    for (Event* e : {&slot.ended, &slot.between}) {
      cudaEvent_t event = nullptr;
      require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), Reason::refused,
              "cannot create an event" + where);
      *e = Event(event);
    }
    if (scratch_.get())
      slot.scratch = static_cast<std::byte*>(scratch_.get()) + i * o.scratch_bytes;
    if (auto* const tables = static_cast<std::byte*>(tables_.get())) {
      slot.table = tables + i * o.table_bytes;
      slot.partials =
          reinterpret_cast<std::uint64_t*>(tables + o.slots * o.table_bytes) + i * o.partials;
    }
    free_.push_back(&slot);
  }

  int device_;
  DeviceBytes scratch_{};
  PinnedBytes tables_{};
  std::vector<Slot> slots_;
  std::vector<Slot*> free_{};
};

}  // namespace b10::copy::cuda
