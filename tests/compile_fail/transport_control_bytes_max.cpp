// expect-error: add: static constexpr std::size_t control_bytes_max = ...
#include "complete.hpp"

struct Incomplete : complete::Transport {
  void control_bytes_max();
};
static_assert(b10::Transport<Incomplete>);
