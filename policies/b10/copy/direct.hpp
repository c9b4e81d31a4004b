#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <b10/copy/cuda/engine.hpp>
#include <b10/copy_engine.hpp>
#include <b10/device/copy_spans.hpp>

namespace b10::copy {

/// One kernel straight between scattered device memory and pinned memory. Use it where no scratch
/// can be spared and the GPU is idle: it has the lowest latency, but it holds its multiprocessors
/// for as long as the bus takes, which costs a model running beside it 8 to 85 % (bench/results). A
/// single piece goes by DMA. Memory: 16 B of pinned memory a span and slot. No digests. Else as
/// copy::Staged.
template <class Kernels = device::Linked>
class BasicDirect : public cuda::Engine<BasicDirect<Kernels>> {
  using Base = cuda::Engine<BasicDirect>;
  using Steps = cuda::Steps;

 public:
  static constexpr std::string_view name = "copy::Direct";
  static constexpr bool reaches_host = true;
  static constexpr bool digests = false;
  using Options = cuda::EngineOptions;

  /// Throws Error{invalid_request, refused}.
  BasicDirect(Options const& options, std::uint64_t slice_bytes) : Base(options, slice_bytes, 0) {}

 private:
  friend Base;
  using Section = cuda::Section;

  static cudaStream_t last_stream(cuda::Slot const& slot, cuda::Direction direction) noexcept {
    return (direction == cuda::Direction::gather ? slot.home->gather_kernels
                                                 : slot.home->scatter_kernels)
        .get();
  }

  void queue_gather(Section const& s, SpanRun from, std::byte* to, Steps& steps) noexcept {
    auto const stream = s.home->gather_kernels.get();
    if (s.pieces > 1) {
      (void)steps(Kernels::gather(s.layout, to, device::Reach::pinned, stream));
      return;
    }
    Base::for_each_piece(s, from, [&](std::byte const* address, std::uint64_t, std::uint64_t n) {
      (void)steps(cudaMemcpyAsync(to, address, n, cudaMemcpyDeviceToHost, stream));
    });
  }
  void queue_scatter(std::byte const* from, Section const& s, SpanRun to, Steps& steps) noexcept {
    auto const stream = s.home->scatter_kernels.get();
    if (s.pieces > 1) {
      (void)steps(Kernels::scatter(from, s.layout, device::Reach::pinned, stream));
      return;
    }
    Base::for_each_piece(s, to, [&](std::byte* address, std::uint64_t, std::uint64_t n) {
      (void)steps(cudaMemcpyAsync(address, from, n, cudaMemcpyHostToDevice, stream));
    });
  }
};

/// The direct engine, with the kernels that b10::cuda has compiled.
class Direct : public BasicDirect<> {
  using BasicDirect::BasicDirect;
};

static_assert(CopyEngine<Direct>, "copy::Direct must model b10::CopyEngine");

}  // namespace b10::copy
