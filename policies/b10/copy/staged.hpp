#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <b10/copy/cuda/engine.hpp>
#include <b10/copy_engine.hpp>
#include <b10/device/copy_spans.hpp>

namespace b10::copy {

/// Gathers into device scratch with a kernel at memory speed, then sends the slice to pinned memory
/// with one DMA; scatters in reverse. The reference: for every span size as fast as a plain
/// cudaMemcpy of the same bytes, and since no kernel waits for the bus it costs a model running
/// beside it little more than that copy would. Pieces of 2 MiB and more, or a single one, go by DMA
/// alone. Memory: slots x slice bytes of scratch on each device, and 16 B of pinned memory a span
/// and slot. Refuses (Error{copy_failed}) spans of devices it was not made for and addresses that
/// are not device memory there. Host spans are copied by the calling thread. Digests
/// (completion::Digested) are computed on the device, in scratch. Kernels:
/// device::Linked with b10::cuda, device::Inline in a .cu with b10::cuda_header_only. One thread.
template <class Kernels = device::Linked>
class BasicStaged : public cuda::Engine<BasicStaged<Kernels>> {
  using Base = cuda::Engine<BasicStaged>;
  using Steps = cuda::Steps;

 public:
  static constexpr std::string_view name = "copy::Staged";
  static constexpr bool reaches_host = true;
  static constexpr bool digests = true;
  using Options = cuda::EngineOptions;

  /// Throws Error{invalid_request, refused}.
  BasicStaged(Options const& options, std::uint64_t slice_bytes)
      : Base(options, slice_bytes, static_cast<std::size_t>(slice_bytes)) {}

 private:
  friend Base;
  using Section = cuda::Section;

  /// From this size on a DMA of its own for each piece is as fast.
  static constexpr std::uint64_t long_piece_bytes = std::uint64_t{2} << 20;
  static bool is_long(Section const& s) noexcept {
    // A digest needs the bytes in scratch.
    return !s.digested && (s.pieces == 1 || s.bytes / s.pieces >= long_piece_bytes);
  }
  static bool queue_digest(Section const& s, std::byte const* scratch, Steps& steps,
                           cudaStream_t stream) noexcept {
    return !s.digested || steps(Kernels::digest(scratch, s.bytes, s.offset / sizeof(std::uint64_t),
                                                s.slot->partials, stream));
  }

  static cudaStream_t last_stream(cuda::Slot const& slot, cuda::Direction direction) noexcept {
    return (direction == cuda::Direction::gather ? slot.home->gather_dma[slot.way]
                                                 : slot.home->scatter_kernels)
        .get();
  }

  void queue_gather(Section const& s, SpanRun from, std::byte* to, Steps& steps) noexcept {
    auto const& d = *s.home;
    if (is_long(s)) {
      Base::for_each_piece(
          s, from, [&](std::byte const* address, std::uint64_t at, std::uint64_t n) {
            (void)(steps.error() == cudaSuccess &&
                   steps(cudaMemcpyAsync(to + at, address, n, cudaMemcpyDeviceToHost,
                                         d.gather_dma[s.slot->way].get())));
          });
      return;
    }
    std::byte* const scratch = s.slot->scratch + s.offset;
    auto const between = s.slot->between.get();
    (void)(steps(Kernels::gather(s.layout, scratch, device::Reach::scratch,
                                 d.gather_kernels.get())) &&
           queue_digest(s, scratch, steps, d.gather_kernels.get()) &&
           steps(cudaEventRecord(between, d.gather_kernels.get())) &&
           steps(cudaStreamWaitEvent(d.gather_dma[s.slot->way].get(), between, 0)) &&
           steps(cudaMemcpyAsync(to, scratch, s.bytes, cudaMemcpyDeviceToHost,
                                 d.gather_dma[s.slot->way].get())));
  }

  void queue_scatter(std::byte const* from, Section const& s, SpanRun to, Steps& steps) noexcept {
    auto const& d = *s.home;
    if (is_long(s)) {
      Base::for_each_piece(s, to, [&](std::byte* address, std::uint64_t at, std::uint64_t n) {
        (void)(steps.error() == cudaSuccess &&
               steps(cudaMemcpyAsync(address, from + at, n, cudaMemcpyHostToDevice,
                                     d.scatter_kernels.get())));
      });
      return;
    }
    std::byte* const scratch = s.slot->scratch + s.offset;
    auto const between = s.slot->between.get();
    (void)(steps(cudaMemcpyAsync(scratch, from, s.bytes, cudaMemcpyHostToDevice,
                                 d.scatter_dma[s.slot->way].get())) &&
           steps(cudaEventRecord(between, d.scatter_dma[s.slot->way].get())) &&
           steps(cudaStreamWaitEvent(d.scatter_kernels.get(), between, 0)) &&
           queue_digest(s, scratch, steps, d.scatter_kernels.get()) &&
           steps(Kernels::scatter(scratch, s.layout, device::Reach::scratch,
                                  d.scatter_kernels.get())));
  }
};

/// The reference engine, with the kernels that b10::cuda has compiled.
class Staged : public BasicStaged<> {
  using BasicStaged::BasicStaged;
};

static_assert(DigestingCopyEngine<Staged>, "copy::Staged must model b10::DigestingCopyEngine");

}  // namespace b10::copy
