// expect-error: add: std::string why() const
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  using complete::CopyEngine::CopyEngine;
  void why();
};
static_assert(b10::CopyEngine<Incomplete>);
