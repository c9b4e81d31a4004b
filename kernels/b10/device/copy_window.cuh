#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace b10::device {

enum class Direction : std::uint8_t { gather, scatter };

/// Pieces that follow each other on the contiguous side, in shared memory. Offsets are those of the
/// block's own share, so that 32 bits hold them.
struct Batch {
  std::uint32_t const* ends;     ///< where on the contiguous side each piece ends
  std::uint64_t const* origins;  ///< address of each piece less the offset where it begins
  std::uint32_t count;
  std::byte* contiguous;
};

/// First of `count` ascending ends that lies beyond `offset`; `count` if none does. As
/// cub::UpperBound, whose header alone would take 4 s of every engine's compile time.
__device__ inline std::uint32_t upper_bound(std::uint32_t const* ends, std::uint32_t count,
                                            std::uint32_t offset) {
  std::uint32_t low = 0;
  while (count > 0) {
    std::uint32_t const half = count / 2;
    if (ends[low + half] > offset) {
      count = half;
    } else {
      low += half + 1;
      count -= half + 1;
    }
  }
  return low;
}

/// A vector to load, read once and not to be kept in the cache.
__device__ inline uint4 load_vector(std::byte const* from) {
  return __ldcs(reinterpret_cast<uint4 const*>(from));
}

/// Gathered bytes are read again at once, by the DMA engine or the host; scattered ones much later.
template <Direction direction>
__device__ void store_vector(std::byte* to, uint4 v) {
  if constexpr (direction == Direction::gather) {
    *reinterpret_cast<uint4*>(to) = v;
  } else {
    __stcs(reinterpret_cast<uint4*>(to), v);
  }
}

/// 16 bytes from any address, by aligned words that each hold at least one of them.
__device__ inline uint4 load_unaligned(std::byte const* from) {
  auto const address = reinterpret_cast<std::uintptr_t>(from);
  auto const* const words = reinterpret_cast<std::uint32_t const*>(address & ~std::uintptr_t{3});
  auto const shift = static_cast<std::uint32_t>(address % 4) * 8;
  std::uint32_t const a = words[0], b = words[1], c = words[2], d = words[3];
  std::uint32_t const e = shift == 0 ? 0 : words[4];
  return {__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
          __funnelshift_r(d, e, shift)};
}

/// Copies `vectors` x 16 bytes by `lanes` lanes, of which this is `lane`; a lane loads `depth` of
/// them before it stores one, since latency is what it waits for. `to` is aligned.
template <Direction direction, std::uint32_t depth, class Load>
__device__ void copy_vectors(std::byte* to, std::byte const* from, std::uint32_t vectors,
                             std::uint32_t lane, std::uint32_t lanes, Load load) {
#pragma unroll 1
  for (std::uint32_t i = lane; i < vectors; i += depth * lanes) {
    uint4 v[depth];
#pragma unroll
    for (std::uint32_t u = 0; u < depth; ++u)
      if (i + u * lanes < vectors) v[u] = load(from + (i + u * lanes) * 16);
#pragma unroll
    for (std::uint32_t u = 0; u < depth; ++u)
      if (i + u * lanes < vectors) store_vector<direction>(to + (i + u * lanes) * 16, v[u]);
  }
}

/// Copies up to window_bytes from anywhere to anywhere by `lanes` lanes, of which this is `lane`.
template <Direction direction>
__device__ void copy_bytes(std::byte* to, std::byte const* from, std::uint32_t bytes,
                           std::uint32_t lane, std::uint32_t lanes) {
  auto const odd = static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(to) % 16);
  std::uint32_t const head = min(odd, bytes);
#pragma unroll 1
  for (std::uint32_t i = lane; i < head; i += lanes) to[i] = from[i];
  std::uint32_t const vectors = (bytes - head) / 16;
  if (reinterpret_cast<std::uintptr_t>(from + head) % 16 == 0) {
    copy_vectors<direction, 4>(to + head, from + head, vectors, lane, lanes, load_vector);
  } else {
    copy_vectors<direction, 1>(to + head, from + head, vectors, lane, lanes, load_unaligned);
  }
#pragma unroll 1
  for (std::uint32_t i = head + vectors * 16 + lane; i < bytes; i += lanes) to[i] = from[i];
}

/// Copies the window [from, to) of a batch in which each piece and its counterpart are congruent
/// modulo 16 and nothing, the window included, ends off a multiple of 16: every lane takes vectors
/// of the contiguous side, next to its neighbours', whatever piece they belong to.
template <Direction direction>
__device__ void copy_whole_vectors(Batch const& batch, std::uint32_t first, std::uint32_t pieces,
                                   std::uint32_t from, std::uint32_t to) {
  std::byte* stores[4];
  uint4 v[4];
#pragma unroll
  for (std::uint32_t u = 0; u < 4; ++u) {
    std::uint32_t const offset = from + (threadIdx.x % 32 + 32 * u) * 16;
    if (offset >= to) continue;
    std::uint32_t const piece = first + upper_bound(batch.ends + first, pieces - 1, offset);
    auto* const scattered = reinterpret_cast<std::byte*>(batch.origins[piece] + offset);
    std::byte* const packed = batch.contiguous + offset;
    stores[u] = direction == Direction::gather ? packed : scattered;
    v[u] = load_vector(direction == Direction::gather ? scattered : packed);
  }
#pragma unroll
  for (std::uint32_t u = 0; u < 4; ++u)
    if (from + (threadIdx.x % 32 + 32 * u) * 16 < to) store_vector<direction>(stores[u], v[u]);
}

/// Copies any window: groups of lanes take pieces, of a size for the window's average piece.
template <Direction direction>
__device__ void copy_pieces(Batch const& batch, std::uint32_t first, std::uint32_t pieces,
                            std::uint32_t from, std::uint32_t to) {
  std::uint32_t const lane = threadIdx.x % 32;
  std::uint32_t const average = (to - from) / pieces;
  std::uint32_t const lanes = average >= 512  ? 32
                              : average >= 32 ? 1u << (27 - __clz(static_cast<int>(average)))
                                              : 1;
  for (std::uint32_t i = lane / lanes; i < pieces; i += 32 / lanes) {
    std::uint32_t const begin = i == 0 ? from : batch.ends[first + i - 1];
    std::uint32_t const bytes = min(batch.ends[first + i], to) - begin;
    auto* const scattered = reinterpret_cast<std::byte*>(batch.origins[first + i] + begin);
    std::byte* const packed = batch.contiguous + begin;
    std::byte* const target = direction == Direction::gather ? packed : scattered;
    std::byte const* const source = direction == Direction::gather ? scattered : packed;
    copy_bytes<direction>(target, source, bytes, lane % lanes, lanes);
  }
}

/// Copies the window [from, to) of the contiguous side: not empty, at most window_bytes, all of it
/// in pieces of the batch. Whole warp.
template <Direction direction>
__device__ void copy_window(Batch const& batch, std::uint32_t from, std::uint32_t to,
                            bool whole_vectors) {
  std::uint32_t const first = upper_bound(batch.ends, batch.count, from);
  std::uint32_t const pieces = upper_bound(batch.ends + first, batch.count - first - 1, to - 1) + 1;
  if (whole_vectors) {
    copy_whole_vectors<direction>(batch, first, pieces, from, to);
  } else {
    copy_pieces<direction>(batch, first, pieces, from, to);
  }
}

}  // namespace b10::device
