// expect-error: a late write could reach staging in use: use quarantine::Ttl
#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

#include "complete.hpp"

struct Other : complete::Quarantine {
  static constexpr b10::Sentence afterwards = b10::Sentence::recycle;
};

template <b10::NeverSilent Node>
struct Engine {};
using Refused = Engine<b10::Transceiver<complete::Staging, complete::TagScheme,
                                        complete::Completion, Other, complete::Transport>>;
