// expect-error: add: void scatter(std::byte const* from, SpanRun to, Event&)
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void scatter();
};
static_assert(b10::CopyEngine<Incomplete>);
