// The ways of moving scattered spans between VRAM and pinned memory that the GPU benches compare.
// Each starts and ends on streams.kernel; those that take `count` copy the first spans only.
#pragma once

#include <cub/device/device_memcpy.cuh>

#include "rig.cuh"

namespace b10::bench {

inline cudaMemcpyKind kind_of(Direction d) {
  return d == Direction::gather ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
}

/// The baseline: one DMA of the same bytes between contiguous memory.
inline void plain_memcpy(Rig& rig, std::size_t bytes, Direction d, cudaStream_t stream) {
  bool const gather = d == Direction::gather;
  require(cudaMemcpyAsync(gather ? rig.pinned : rig.flat, gather ? rig.flat : rig.pinned, bytes,
                          kind_of(d), stream),
          "cudaMemcpyAsync");
}
/// The baseline of what stays in VRAM.
inline void plain_device_memcpy(Rig& rig, std::size_t bytes, cudaStream_t stream) {
  require(cudaMemcpyAsync(rig.pool, rig.flat, bytes, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
}

/// B10's table of all spans, and how long writing it took.
struct FullTable {
  FullTable(Rig& rig, Spans const& spans) {
    for (int warm = 0; warm < 2; ++warm) {
      double const begin = now_s();
      device::SpanTable table(rig.table, rig.table_bytes);
      for (std::size_t i = 0; i < spans.count; ++i)
        table.add(spans.address(rig, i), spans.span_bytes);
      layout = table.finish();
      ns_per_span = (now_s() - begin) * 1e9 / static_cast<double>(spans.count);
    }
  }
  device::Layout layout;
  double ns_per_span = 0;
};

/// B10's kernel, as launched by default.
inline void kernel(device::Layout const& layout, std::byte* contiguous, device::Reach reach,
                   Direction d, cudaStream_t stream) {
  require(d == Direction::gather ? device::Inline::gather(layout, contiguous, reach, stream)
                                 : device::Inline::scatter(contiguous, layout, reach, stream),
          "kernel");
}

/// cub::DeviceMemcpy::Batched over all spans; its tables of 24 B a span are in VRAM beforehand.
class CubBatched {
 public:
  explicit CubBatched(Rig& rig) : rig_(rig) {}

  void load(Spans const& spans) {
    count_ = spans.count;
    std::vector<std::byte*> pool(count_), pinned(count_), flat(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      pool[i] = spans.address(rig_, i);
      pinned[i] = rig_.pinned + i * spans.span_bytes;
      flat[i] = rig_.flat + i * spans.span_bytes;
    }
    upload(pool_, pool);
    upload(pinned_, pinned);
    upload(flat_, flat);
    upload(sizes_, std::vector<std::size_t>(count_, spans.span_bytes));
    std::size_t bytes = 0;
    run(nullptr, bytes, device::Reach::pinned, Direction::gather, nullptr);
    if (bytes > temporary_bytes_) {
      require(cudaFree(temporary_), "cudaFree");
      temporary_ = allocate<std::byte>(bytes);
      temporary_bytes_ = bytes;
    }
  }
  void copy(device::Reach reach, Direction d, cudaStream_t stream) {
    run(temporary_, temporary_bytes_, reach, d, stream);
  }

 private:
  void run(void* temporary, std::size_t& bytes, device::Reach reach, Direction d,
           cudaStream_t stream) {
    std::byte** const contiguous = reach == device::Reach::pinned ? pinned_ : flat_;
    bool const gather = d == Direction::gather;
    require(cub::DeviceMemcpy::Batched(temporary, bytes, gather ? pool_ : contiguous,
                                       gather ? contiguous : pool_, sizes_,
                                       static_cast<std::int64_t>(count_), stream),
            "cub::DeviceMemcpy::Batched");
  }

  Rig& rig_;
  std::size_t count_ = 0;
  std::byte** pool_ = allocate<std::byte*>(Rig::spans_max);
  std::byte** pinned_ = allocate<std::byte*>(Rig::spans_max);
  std::byte** flat_ = allocate<std::byte*>(Rig::spans_max);
  std::size_t* sizes_ = allocate<std::size_t>(Rig::spans_max);
  std::byte* temporary_ = nullptr;
  std::size_t temporary_bytes_ = 0;
};

/// Writes the table of the spans' next `bytes` each time it is asked.
class SliceTables {
 public:
  SliceTables(Rig& rig, Spans const& spans) : rig_(rig), spans_(spans), memory_(rig.slice_tables) {}

  [[nodiscard]] device::Layout next(std::size_t bytes) {
    auto const left = rig_.table_bytes - static_cast<std::size_t>(memory_ - rig_.slice_tables);
    device::SpanTable table(memory_, left);
    std::size_t pieces = 0;
    for (; bytes > 0; ++pieces) {
      std::size_t const n = std::min(bytes, spans_.span_bytes - skip_);
      table.add(spans_.address(rig_, span_) + skip_, n);
      bytes -= n;
      skip_ += n;
      if (skip_ == spans_.span_bytes) skip_ = 0, ++span_;
    }
    memory_ += device::SpanTable::bytes_max(pieces);
    return table.finish();
  }

 private:
  Rig& rig_;
  Spans const& spans_;
  std::byte* memory_;
  std::size_t span_ = 0;
  std::size_t skip_ = 0;
};

/// The kernel between the pool and a ring of slices of scratch, a DMA between these and pinned
/// memory. Tables are written as it goes.
inline void staged(Rig& rig, Spans const& spans, std::size_t slice_bytes, Direction d,
                   Streams const& streams) {
  SliceTables tables(rig, spans);
  bool const gather = d == Direction::gather;
  cudaStream_t const first = gather ? streams.kernel : streams.dma;
  cudaStream_t const second = gather ? streams.dma : streams.kernel;
  auto const& first_done = gather ? rig.kernel_done : rig.dma_done;
  auto const& second_done = gather ? rig.dma_done : rig.kernel_done;
  std::size_t slot = 0;
  for (std::size_t at = 0, k = 0; at < spans.bytes(); at += slice_bytes, ++k) {
    std::size_t const bytes = std::min(slice_bytes, spans.bytes() - at);
    device::Layout const layout = tables.next(bytes);
    slot = k % Rig::ring;
    std::byte* const scratch = rig.scratch + slot * slice_bytes;
    auto const dma = [&] {
      require(cudaMemcpyAsync(gather ? rig.pinned + at : scratch,
                              gather ? scratch : rig.pinned + at, bytes, kind_of(d), streams.dma),
              "DMA of a slice");
    };
    auto const spread = [&] { kernel(layout, scratch, device::Reach::scratch, d, streams.kernel); };
    if (k >= Rig::ring) require(cudaStreamWaitEvent(first, second_done[slot]), "wait");
    gather ? spread() : dma();
    require(cudaEventRecord(first_done[slot], first), "record");
    require(cudaStreamWaitEvent(second, first_done[slot]), "wait");
    gather ? dma() : spread();
    require(cudaEventRecord(second_done[slot], second), "record");
  }
  if (gather) require(cudaStreamWaitEvent(streams.kernel, second_done[slot]), "wait");
}

/// cudaMemcpyBatchAsync of the first `count` spans.
class CopyEngineBatch {
 public:
  CopyEngineBatch(Rig& rig, Spans const& spans, std::size_t count)
      : pool_(count), pinned_(count), sizes_(count, spans.span_bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      pool_[i] = spans.address(rig, i);
      pinned_[i] = rig.pinned + i * spans.span_bytes;
    }
  }
  void copy(Direction d, cudaStream_t stream) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    auto& from = d == Direction::gather ? pool_ : pinned_;
    auto& to = d == Direction::gather ? pinned_ : pool_;
    require(cudaMemcpyBatchAsync(to.data(), from.data(), sizes_.data(), sizes_.size(), &attributes,
                                 &first, 1, stream),
            "cudaMemcpyBatchAsync");
  }
  /// One call a span instead.
  void copy_each(Direction d, cudaStream_t stream) {
    auto& from = d == Direction::gather ? pool_ : pinned_;
    auto& to = d == Direction::gather ? pinned_ : pool_;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      require(cudaMemcpyAsync(to[i], from[i], sizes_[i], kind_of(d), stream), "cudaMemcpyAsync");
  }

 private:
  std::vector<void*> pool_;
  std::vector<void*> pinned_;
  std::vector<std::size_t> sizes_;
};

}  // namespace b10::bench
