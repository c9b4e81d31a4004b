// expect-error: add: static constexpr bool identities_recur = ...
#include "complete.hpp"

struct Incomplete : complete::TagScheme {
  void identities_recur();
};
static_assert(b10::TagScheme<Incomplete>);
