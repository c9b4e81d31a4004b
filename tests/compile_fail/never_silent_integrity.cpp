// expect-error: a changed payload would not be found: use completion::Digested
#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

#include "complete.hpp"

template <b10::NeverSilentNorChanged Node>
struct Engine {};
using Refused =
    Engine<b10::Transceiver<complete::Staging, complete::TagScheme, complete::Completion,
                            complete::Quarantine, complete::Transport>>;
