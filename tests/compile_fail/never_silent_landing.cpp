// expect-error: success would not prove that bytes landed: use completion::CopyEvent
#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

#include "complete.hpp"

struct Other : complete::Completion {
  static constexpr bool proves_landing = false;
};

template <b10::NeverSilent Node>
struct Engine {};
using Refused = Engine<b10::Transceiver<complete::Staging, complete::TagScheme, Other,
                                        complete::Quarantine, complete::Transport>>;
