// expect-error: a tag could match twice: use tag::Hashed
#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

#include "complete.hpp"

struct Other : complete::TagScheme {
  static constexpr bool identities_recur = true;
};

template <b10::NeverSilent Node>
struct Engine {};
using Refused = Engine<b10::Transceiver<complete::Staging, Other, complete::Completion,
                                        complete::Quarantine, complete::Transport>>;
