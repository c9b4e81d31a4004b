// expect-error: add: a move-only Link with id, control(frame), send and receive(tag, buffer, bytes
#include "complete.hpp"

struct Incomplete : complete::Transport {
  struct Link {};
};
static_assert(b10::Transport<Incomplete>);
