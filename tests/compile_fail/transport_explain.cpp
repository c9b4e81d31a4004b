// expect-error: add: std::string explain() const
#include "complete.hpp"

struct Incomplete : complete::Transport {
  void explain();
};
static_assert(b10::Transport<Incomplete>);
