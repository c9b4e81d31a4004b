// expect-error: add: static constexpr unsigned depth = ...
#include "complete.hpp"

struct Incomplete : complete::Slicing {
  void depth();
};
static_assert(b10::Slicing<Incomplete>);
