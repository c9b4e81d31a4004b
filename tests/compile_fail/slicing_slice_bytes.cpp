// expect-error: add: static constexpr std::uint64_t slice_bytes(std::uint64_t buffer_bytes)
#include "complete.hpp"

struct Incomplete : complete::Slicing {
  void slice_bytes();
};
static_assert(b10::Slicing<Incomplete>);
