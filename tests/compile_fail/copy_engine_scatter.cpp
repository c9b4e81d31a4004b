// expect-error: add: void scatter(std::byte const* from, SpanRun to, Event&)
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  void scatter();
};
static_assert(b10::CopyEngine<Incomplete>);
