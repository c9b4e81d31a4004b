#pragma once

#include <concepts>
#include <cstdint>

#include <b10/policy.hpp>

namespace b10 {
namespace req {

template <class S>
concept CutsBuffers =
    requires(std::uint64_t buffer_bytes) {
      { S::slice_bytes(buffer_bytes) } noexcept -> std::same_as<std::uint64_t>;
    } ||
    unmet<
        "add: static constexpr std::uint64_t slice_bytes(std::uint64_t buffer_bytes) noexcept "
        "(bytes of one staged chunk)">;

template <class S>
concept SaysDepth = requires {
  { S::depth } -> std::convertible_to<unsigned>;
} || unmet<"add: static constexpr unsigned depth = ... (slices of one transfer in flight at once)">;

}  // namespace req

/// In what pieces a transfer is staged: the size of a slice and how many of one transfer are in
/// flight. Laws: 0 < slice_bytes(b) <= b for every b > 0; depth >= 1. Models: slicing::Whole,
/// slicing::Chunked, slicing::Pipelined (reference).
template <class S>
concept Slicing = Policy<S> && req::CutsBuffers<S> && req::SaysDepth<S>;

}  // namespace b10
