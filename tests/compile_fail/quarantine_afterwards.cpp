// expect-error: add: static constexpr Sentence afterwards = ...
#include "complete.hpp"

struct Incomplete : complete::Quarantine {
  void afterwards();
};
static_assert(b10::Quarantine<Incomplete>);
