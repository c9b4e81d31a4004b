#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda_runtime.h>

#include <b10/device/copy_spans.hpp>
#include <b10/device/copy_window.cuh>
#include <b10/device/digest.cuh>
#include <b10/device/tuning.cuh>

namespace b10::device {

/// A table that the device reads where the host wrote it.
struct TableByPointer {
  std::uint64_t const* rows;
};

/// A small table that travels with the launch.
struct TableByValue {
  alignas(16) std::uint64_t rows[value_bytes_max / sizeof(std::uint64_t)];
};

/// Small enough for sums of two offsets in 32 bits; a multiple of window_bytes.
inline constexpr std::uint32_t share_bytes_max = 1u << 30;

/// The copy, less its table.
struct Shape {
  std::byte* contiguous;
  std::uint64_t bytes;
  std::uint64_t piece_bytes;  ///< 0: mixed
  std::uint64_t skip;
  std::uint32_t pieces;
  std::uint32_t share;  ///< [bytes] of the contiguous side a block takes, up to share_bytes_max
  std::uint32_t lead;   ///< [bytes] from the last line boundary to `contiguous`
};

/// First row whose end lies beyond `offset`, which is below shape.bytes. For mixed rows; by a whole
/// warp, since each step costs a round trip over PCIe: 3 steps find one of 32 Ki rows.
template <class Table>
__device__ std::uint32_t find_row(Table const& table, Shape const& shape, std::uint64_t offset) {
  std::uint32_t const lane = threadIdx.x % 32;
  std::uint32_t low = 0;
  std::uint32_t count = shape.pieces;
  while (count > 1) {
    std::uint32_t const step = (count - 1) / 32 + 1;
    std::uint64_t const last = min((lane + std::uint64_t{1}) * step, std::uint64_t{count}) - 1;
    bool const beyond = table.rows[2 * (low + last) + 1] > offset;
    auto const section = static_cast<std::uint32_t>(__ffs(__ballot_sync(~0u, beyond)) - 1);
    low += section * step;
    count = min(step, count - section * step);
  }
  return low;
}

struct Row {
  std::uint64_t origin;
  std::uint64_t end;
};

template <class Table>
__device__ Row load_row(Table const& table, Shape const& shape, std::uint32_t i) {
  if (shape.piece_bytes != 0)
    return {table.rows[i], (i + std::uint64_t{1}) * shape.piece_bytes - shape.skip};
  auto const row = reinterpret_cast<ulonglong2 const*>(table.rows)[i];
  return {row.x, row.y};
}

/// First and last row of the block's share [begin, end) of the contiguous side. Whole block.
template <class Table>
__device__ uint2 find_rows(Table const& table, Shape const& shape, std::uint64_t begin,
                           std::uint64_t end) {
  if (shape.piece_bytes != 0) {
    return {static_cast<std::uint32_t>((begin + shape.skip) / shape.piece_bytes),
            static_cast<std::uint32_t>((end - 1 + shape.skip) / shape.piece_bytes)};
  }
  __shared__ std::uint32_t found[2];
  if (std::uint32_t const warp = threadIdx.x / 32; warp < 2) {
    std::uint32_t const row = find_row(table, shape, warp == 0 ? begin : end - 1);
    if (threadIdx.x % 32 == 0) found[warp] = row;
  }
  __syncthreads();
  return {found[0], found[1]};
}

/// Gathers or scatters. Each block takes a share of the contiguous side. It brings the rows of its
/// pieces into shared memory, as many at a time as it has threads, reading the next ones while its
/// warps copy windows of these; so each row crosses PCIe about once, and in long reads. Dynamic
/// shared memory: shared_bytes(threads).
template <Direction direction, class Table>
__global__ void __launch_bounds__(1024)
    copy_spans(__grid_constant__ Table const table, __grid_constant__ Shape const shape) {
  extern __shared__ std::uint64_t batch_memory[];
  std::uint64_t* const origins = batch_memory;
  auto* const ends = reinterpret_cast<std::uint32_t*>(batch_memory + blockDim.x);
  std::uint32_t const lead = blockIdx.x == 0 ? shape.lead : 0;  // other shares begin on a line
  std::uint64_t const begin = blockIdx.x * std::uint64_t{shape.share} + lead - shape.lead;
  auto const size =
      static_cast<std::uint32_t>(min(std::uint64_t{shape.share - lead}, shape.bytes - begin));
  std::byte* const contiguous = shape.contiguous + begin;
  uint2 rows =
      find_rows(table, shape, begin, begin + size);  // first of the next batch, last of all

  Row mine{};
  if (threadIdx.x <= rows.y - rows.x) mine = load_row(table, shape, rows.x + threadIdx.x);
  for (std::uint32_t at = 0; at < size;) {
    std::uint32_t const count = min(blockDim.x, rows.y - rows.x + 1);
    bool whole_vectors = true;
    if (threadIdx.x < count) {
      auto const end = static_cast<std::uint32_t>(min(mine.end - begin, std::uint64_t{size}));
      origins[threadIdx.x] = mine.origin + begin;
      ends[threadIdx.x] = end;
      auto const packed = reinterpret_cast<std::uintptr_t>(contiguous);
      whole_vectors =
          ((((mine.origin + begin) ^ packed) | (packed + end) | (packed + at)) & 15) == 0;
    }
    whole_vectors = __syncthreads_and(whole_vectors) != 0;
    std::uint32_t const stop = ends[count - 1];
    rows.x += count;
    if (stop < size && threadIdx.x <= rows.y - rows.x)
      mine = load_row(table, shape, rows.x + threadIdx.x);

    Batch const batch{ends, origins, count, contiguous};
    // Windows end where lines do: the first may begin before the batch, the last end behind it.
    std::uint32_t const first = (at + lead) / window_bytes + threadIdx.x / 32;
    for (std::uint32_t edge = first * window_bytes; edge < stop + lead;
         edge += blockDim.x / 32 * window_bytes) {
      copy_window<direction>(batch, edge > at + lead ? edge - lead : at,
                             min(edge + window_bytes - lead, stop), whole_vectors);
    }
    at = stop;
    if (at < size) __syncthreads();
  }
}

/// [bytes] of dynamic shared memory: an origin and an end for each thread.
[[nodiscard]] constexpr std::size_t shared_bytes(int threads) noexcept {
  return static_cast<std::size_t>(threads) * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

/// Whether the device reads the table where it is or gets it with the launch.
enum class Passing : std::uint8_t { by_pointer, by_value };

/// What a launch does by itself; a small table by value.
[[nodiscard]] constexpr Passing passing_for(Layout const& layout) noexcept {
  return layout.table_bytes() <= value_bytes_max ? Passing::by_value : Passing::by_pointer;
}

/// Launches one copy of exactly this shape. For benchmarks and tests: others let Inline choose.
/// By value takes a table of at most value_bytes_max.
template <Direction direction>
[[nodiscard]] cudaError_t launch_copy(Layout const& layout, std::byte* contiguous, Launch launch,
                                      Passing passing, cudaStream_t stream) noexcept {
  if (layout.bytes == 0) return cudaSuccess;
  constexpr std::uint32_t line_bytes = 128;  // windows start on lines of the contiguous side
  auto const address = reinterpret_cast<std::uintptr_t>(contiguous);
  auto const lead = static_cast<std::uint32_t>(address % line_bytes);
  std::uint64_t const windows = (layout.bytes + lead - 1) / window_bytes + 1;
  std::uint64_t const share = std::min<std::uint64_t>((windows - 1) / launch.blocks + 1,
                                                      share_bytes_max / window_bytes);  // [windows]
  Shape const shape{contiguous,  layout.bytes,  layout.piece_bytes,
                    layout.skip, layout.pieces, static_cast<std::uint32_t>(share * window_bytes),
                    lead};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((windows - 1) / share + 1));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = shared_bytes(launch.threads);
  config.stream = stream;
  cudaError_t error = cudaSuccess;
  if (passing == Passing::by_value) {
    TableByValue table;
    std::memcpy(table.rows, layout.rows, layout.table_bytes());
    error = cudaLaunchKernelEx(&config, copy_spans<direction, TableByValue>, table, shape);
  } else {
    TableByPointer const table{static_cast<std::uint64_t const*>(layout.rows)};
    error = cudaLaunchKernelEx(&config, copy_spans<direction, TableByPointer>, table, shape);
  }
  // The caller has it; whoever asks for the last error next shall not get this one.
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return error;
}

/// Linked (copy_spans.hpp) for engines built by nvcc: the kernels are compiled with the engine, for
/// its architectures. Calls, errors and threads as there.
struct Inline {
  [[nodiscard]] static cudaError_t gather(Layout const& layout, std::byte* to, Reach reach,
                                          cudaStream_t stream) noexcept {
    return start<Direction::gather>(layout, to, reach, stream);
  }
  [[nodiscard]] static cudaError_t scatter(std::byte const* from, Layout const& layout, Reach reach,
                                           cudaStream_t stream) noexcept {
    return start<Direction::scatter>(layout, const_cast<std::byte*>(from), reach, stream);
  }
  [[nodiscard]] static cudaError_t digest(std::byte const* from, std::uint64_t bytes,
                                          std::uint64_t first_word, std::uint64_t* partials,
                                          cudaStream_t stream) noexcept {
    return launch_digest(from, bytes, first_word, partials, stream);
  }

 private:
  template <Direction direction>
  static cudaError_t start(Layout const& layout, std::byte* contiguous, Reach reach,
                           cudaStream_t stream) noexcept {
    int device = 0;
    int major = 0;
    if (auto const e = cudaGetDevice(&device); e != cudaSuccess) return e;
    if (auto const e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        e != cudaSuccess)
      return e;
    Launch const launch = launch_for(tuning_for(major), layout, reach);
    return launch_copy<direction>(layout, contiguous, launch, passing_for(layout), stream);
  }
};

}  // namespace b10::device
