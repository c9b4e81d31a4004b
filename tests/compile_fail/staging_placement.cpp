// expect-error: add: static constexpr b10::Placement placement = ...
#include "complete.hpp"

struct Incomplete : complete::Staging {
  void placement();
};
static_assert(b10::Staging<Incomplete>);
