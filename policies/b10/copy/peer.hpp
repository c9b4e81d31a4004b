#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <b10/copy/cuda/engine.hpp>
#include <b10/copy_engine.hpp>
#include <b10/device/copy_spans.hpp>

namespace b10::copy {

/// For staging in GPU memory: gathers with one kernel straight into a peer GPU's staging, over
/// NVLink where there is one, and scatters with one within this GPU. The kernel holds
/// multiprocessors only for as long as NVLink takes (a slice of 32 MiB: 85 us). A single piece goes
/// by DMA. Memory: 16 B of pinned memory a span and slot. Else as copy::Staged.
template <class Kernels = device::Linked>
class BasicPeer : public cuda::Engine<BasicPeer<Kernels>> {
  using Base = cuda::Engine<BasicPeer>;
  using Steps = cuda::Steps;

 public:
  static constexpr std::string_view name = "copy::Peer";
  static constexpr bool reaches_host = false;
  using Options = cuda::EngineOptions;

  /// Throws Error{invalid_request, refused}.
  BasicPeer(Options const& options, std::uint64_t slice_bytes) : Base(options, slice_bytes, 0) {}

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
      (void)steps(Kernels::gather(s.layout, to, device::Reach::scratch, stream));
      return;
    }
    Base::for_each_piece(s, from, [&](std::byte const* address, std::uint64_t, std::uint64_t n) {
      (void)steps(cudaMemcpyAsync(to, address, n, cudaMemcpyDefault, stream));
    });
  }
  void queue_scatter(std::byte const* from, Section const& s, SpanRun to, Steps& steps) noexcept {
    auto const stream = s.home->scatter_kernels.get();
    if (s.pieces > 1) {
      (void)steps(Kernels::scatter(from, s.layout, device::Reach::scratch, stream));
      return;
    }
    Base::for_each_piece(s, to, [&](std::byte* address, std::uint64_t, std::uint64_t n) {
      (void)steps(cudaMemcpyAsync(address, from, n, cudaMemcpyDefault, stream));
    });
  }
};

/// The peer engine, with the kernels that b10::cuda has compiled.
class Peer : public BasicPeer<> {
  using BasicPeer::BasicPeer;
};

static_assert(CopyEngine<Peer>, "copy::Peer must model b10::CopyEngine");

}  // namespace b10::copy
