// expect-error: add: Sentence sentence(Duration age, bool pending) const noexcept
#include "complete.hpp"

struct Incomplete : complete::Quarantine {
  void sentence();
};
static_assert(b10::Quarantine<Incomplete>);
