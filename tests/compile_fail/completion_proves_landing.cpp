// expect-error: add: static constexpr bool proves_landing = ...
#include "complete.hpp"

struct Incomplete : complete::Completion {
  void proves_landing();
};
static_assert(b10::Completion<Incomplete>);
