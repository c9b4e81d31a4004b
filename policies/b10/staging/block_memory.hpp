#pragma once

#include <concepts>
#include <cstddef>

#include <b10/unmet.hpp>

namespace b10::staging {

/// Makes and frees the memory of one block. allocate() returns memory that is ready for use
/// (touched, locked, pinned) or throws b10::Error. Never called by two threads at once, but not
/// always by the same one.
template <class M>
concept BlockMemory =
    requires(M& m, std::byte* p, std::size_t bytes) {
      typename M::Options;
      requires std::constructible_from<M, typename M::Options>;
      { m.allocate(bytes) } -> std::same_as<std::byte*>;
      { m.free(p, bytes) } noexcept;
    } ||
    unmet<
        "add: Options, a constructor from it, std::byte* allocate(std::size_t) and void "
        "free(std::byte*, std::size_t) noexcept">;

}  // namespace b10::staging
