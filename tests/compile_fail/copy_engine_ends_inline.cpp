// expect-error: add: static constexpr bool ends_inline = ...
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void ends_inline();
};
static_assert(b10::CopyEngine<Incomplete>);
