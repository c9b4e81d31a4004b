// expect-error: add: using Slicing = ... and using CopyEngine = ...
#include "complete.hpp"

struct Incomplete : complete::Staging {
  using Slicing = int;
};
static_assert(b10::Staging<Incomplete>);
