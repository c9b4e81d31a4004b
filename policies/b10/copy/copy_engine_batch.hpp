#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <b10/copy/cuda/engine.hpp>
#include <b10/copy_engine.hpp>

namespace b10::copy {

/// Leaves every span to the copy engines with cudaMemcpyBatchAsync: no kernel, no multiprocessor,
/// no scratch. Use it where a kernel must not run beside the model (some engines stop for ever when
/// one queues behind a collective), and where spans are long: 64 KiB spans reach about three
/// quarters of the bus, 2 KiB spans a fourteenth (bench/results). Memory: 24 B a span. Else as
/// copy::Staged.
class CopyEngineBatch : public cuda::Engine<CopyEngineBatch> {
  using Base = cuda::Engine<CopyEngineBatch>;
  using Steps = cuda::Steps;

 public:
  static constexpr std::string_view name = "copy::CopyEngineBatch";
  static constexpr bool reaches_host = true;
  static constexpr bool digests = false;
  using Options = cuda::EngineOptions;

  /// Throws Error{invalid_request, refused}.
  CopyEngineBatch(Options const& options, std::uint64_t slice_bytes)
      : Base(options, slice_bytes, 0) {
    // So that a copy allocates nothing as long as its spans stay below the limit.
    kv_.reserve(options.spans_max);
    staging_.reserve(options.spans_max);
    sizes_.reserve(options.spans_max);
  }

 private:
  friend Base;
  using Section = cuda::Section;

  static cudaStream_t last_stream(cuda::Slot const& slot, cuda::Direction direction) noexcept {
    return (direction == cuda::Direction::gather ? slot.home->gather_dma[slot.way]
                                                 : slot.home->scatter_dma[slot.way])
        .get();
  }

  void list(Section const& s, SpanRun run, std::byte* staging) {
    kv_.clear();
    staging_.clear();
    sizes_.clear();
    Base::for_each_piece(s, run, [&](std::byte* address, std::uint64_t at, std::uint64_t n) {
      kv_.push_back(address);
      staging_.push_back(staging + at);
      sizes_.push_back(n);
    });
  }
  cudaError_t copy(std::vector<void*> const& to, std::vector<void*> const& from,
                   cudaStream_t stream) noexcept {
    // The staged bytes are complete when the copy is queued, and pages must not be read early.
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;
    return cudaMemcpyBatchAsync(to.data(), from.data(), sizes_.data(), sizes_.size(), &attributes,
                                &first, 1, stream);
  }
  void queue_gather(Section const& s, SpanRun from, std::byte* to, Steps& steps) {
    list(s, from, to);
    (void)steps(copy(staging_, kv_, s.home->gather_dma[s.slot->way].get()));
  }
  void queue_scatter(std::byte const* from, Section const& s, SpanRun to, Steps& steps) {
    list(s, to, const_cast<std::byte*>(from));  // only read
    (void)steps(copy(kv_, staging_, s.home->scatter_dma[s.slot->way].get()));
  }

  std::vector<void*> kv_{};
  std::vector<void*> staging_{};
  std::vector<std::size_t> sizes_{};
};

static_assert(CopyEngine<CopyEngineBatch>, "copy::CopyEngineBatch must model b10::CopyEngine");

}  // namespace b10::copy
