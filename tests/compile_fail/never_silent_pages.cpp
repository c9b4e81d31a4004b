// expect-error: pages could come back while a copy touches them: use quarantine::Ttl
#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

#include "complete.hpp"

struct Other : complete::Quarantine {
  static constexpr bool holds_identities = false;
};

template <b10::req::ProtectsPages Node>
struct Engine {};
using Refused = Engine<b10::Transceiver<complete::Staging, complete::TagScheme,
                                        complete::Completion, Other, complete::Transport>>;
