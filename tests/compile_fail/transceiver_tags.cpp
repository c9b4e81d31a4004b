// expect-error: add: Tag tag(MessageIdentity) const noexcept
// As users meet it: a policy given to the transceiver. nvcc prints advice here, not for an assert.
#include <b10/transceiver.hpp>

#include "complete.hpp"

struct Incomplete : complete::TagScheme {
  b10::Tag tag(b10::MessageIdentity);
};
using Node = b10::Transceiver<complete::Staging, Incomplete, complete::Completion,
                              complete::Quarantine, complete::Transport>;
