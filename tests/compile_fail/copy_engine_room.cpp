// expect-error: add: bool has_room() noexcept
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void has_room();
};
static_assert(b10::CopyEngine<Incomplete>);
