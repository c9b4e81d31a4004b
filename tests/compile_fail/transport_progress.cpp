// expect-error: add: unsigned progress(Handler&), void wait(Instant until), void wake() noexcept
#include "complete.hpp"

struct Incomplete : complete::Transport {
  void wake();
};
static_assert(b10::Transport<Incomplete>);
