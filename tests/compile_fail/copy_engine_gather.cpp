// expect-error: add: void gather(SpanRun from, std::byte* to, Event&)
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void gather();
};
static_assert(b10::CopyEngine<Incomplete>);
