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
/// NVLink where there is one, and scatters with one within this GPU. Gathering into scratch first
/// and sending that with a DMA was slower (273 against 362 GB/s, bench/results). A single piece, or
/// pieces of 2 MiB and more, go by DMA. Memory: 16 B of pinned memory a span and slot. Else as
/// copy::Staged, except that host spans are refused.
template <class Kernels = device::Linked>
class BasicPeer : public cuda::Engine<BasicPeer<Kernels>> {
  using Base = cuda::Engine<BasicPeer>;
  using Steps = cuda::Steps;

 public:
  static constexpr std::string_view name = "copy::Peer";
  static constexpr bool reaches_host = false;
  static constexpr bool digests = false;
  using Options = cuda::EngineOptions;

  /// Throws Error{invalid_request, refused}.
  BasicPeer(Options const& options, std::uint64_t slice_bytes) : Base(options, slice_bytes, 0) {}

 private:
  friend Base;
  using Section = cuda::Section;

  static constexpr std::uint64_t long_piece_bytes = std::uint64_t{2} << 20;
  static bool is_long(Section const& s) noexcept {
    return s.pieces == 1 || s.bytes / s.pieces >= long_piece_bytes;
  }

  static cudaStream_t last_stream(cuda::Slot const& slot, cuda::Direction direction) noexcept {
    return (direction == cuda::Direction::gather ? slot.home->gather_dma[slot.way]
                                                 : slot.home->scatter_kernels)
        .get();
  }

  void queue_gather(Section const& s, SpanRun from, std::byte* to, Steps& steps) noexcept {
    auto const stream = s.home->gather_dma[s.slot->way].get();
    if (!is_long(s)) {
      (void)steps(Kernels::gather(s.layout, to, device::Reach::scratch, stream));
      return;
    }
    Base::for_each_piece(s, from, [&](std::byte const* address, std::uint64_t at, std::uint64_t n) {
      (void)(steps.error() == cudaSuccess &&
             steps(cudaMemcpyAsync(to + at, address, n, cudaMemcpyDefault, stream)));
    });
  }
  void queue_scatter(std::byte const* from, Section const& s, SpanRun to, Steps& steps) noexcept {
    auto const stream = s.home->scatter_kernels.get();
    if (!is_long(s)) {
      (void)steps(Kernels::scatter(from, s.layout, device::Reach::scratch, stream));
      return;
    }
    Base::for_each_piece(s, to, [&](std::byte* address, std::uint64_t at, std::uint64_t n) {
      (void)(steps.error() == cudaSuccess &&
             steps(cudaMemcpyAsync(address, from + at, n, cudaMemcpyDefault, stream)));
    });
  }
};

/// The peer engine, with the kernels that b10::cuda has compiled.
class Peer : public BasicPeer<> {
  using BasicPeer::BasicPeer;
};

static_assert(CopyEngine<Peer>, "copy::Peer must model b10::CopyEngine");

}  // namespace b10::copy
