// expect-error: add: void connect(ConnectId, std::string_view address, Instant deadline)
#include "complete.hpp"

struct Incomplete : complete::Transport {
  void connect();
};
static_assert(b10::Transport<Incomplete>);
