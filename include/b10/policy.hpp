#pragma once

#include <concepts>
#include <string_view>

#include <b10/unmet.hpp>

namespace b10 {
namespace req {

template <class P>
concept HasName = requires {
  { P::name } -> std::convertible_to<std::string_view>;
} || unmet<"add: static constexpr std::string_view name = \"axis::Type\"">;

}  // namespace req

/// What every policy of every axis has: a name for logs, benchmarks and `explain()`.
template <class P>
concept Policy = req::HasName<P>;

}  // namespace b10
