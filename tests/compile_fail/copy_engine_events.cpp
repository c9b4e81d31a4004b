// expect-error: add: Event and SourceReady types, CopyState query(Event&) noexcept
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void query();
};
static_assert(b10::CopyEngine<Incomplete>);
