// expect-error: add: move-only View and Quarantined; try_acquire(Use), release(View&&)
#include "complete.hpp"

struct Incomplete : complete::Staging {
  void quarantine();
};
static_assert(b10::Staging<Incomplete>);
