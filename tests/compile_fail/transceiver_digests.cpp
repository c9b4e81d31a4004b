// expect-error: use a copy engine with digests: copy::Staged, copy::Memcpy; or add the functions
// As users meet it: a pair of policies that do not go together.
#include <b10/transceiver.hpp>

#include "complete.hpp"

using Node = b10::Transceiver<complete::Staging, complete::TagScheme, b10::completion::Digested,
                              complete::Quarantine, complete::Transport>;
std::size_t const size = sizeof(Node);
