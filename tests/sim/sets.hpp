#pragma once

#include <b10/completion/copy_event.hpp>
#include <b10/completion/digested.hpp>
#include <b10/quarantine/ttl.hpp>
#include <b10/tag/hashed.hpp>
#include <b10/transport/sim.hpp>
#include <b10/v1.hpp>

#include "sim/staging.hpp"

/// The policy sets that campaigns compare, with staging and time limits of their scale.
namespace campaign {

template <class Staging, class Completion = b10::completion::CopyEvent>
using B10 = b10::BasicTransceiver<Staging, b10::tag::Hashed, Completion, b10::quarantine::TtlMs<40>,
                                  b10::transport::Sim>;

/// The reference but for one policy that promises less.
using SendCompleteB10 = B10<WatchedStaging, b10::completion::SendComplete>;
using Low12B10 = b10::BasicTransceiver<WatchedStaging, b10::tag::Low12, b10::completion::CopyEvent,
                                       b10::quarantine::TtlMs<40>, b10::transport::Sim>;
using NoQuarantineB10 =
    b10::BasicTransceiver<SharedWatchedStaging, b10::tag::Hashed, b10::completion::CopyEvent,
                          b10::quarantine::None, b10::transport::Sim>;

template <class Staging, class Quarantine>
using V1 = b10::v1::Transceiver<Staging, Quarantine, b10::transport::Sim>;

}  // namespace campaign
