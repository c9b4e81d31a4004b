#pragma once

#include <b10/completion/send_complete.hpp>
#include <b10/quarantine/none.hpp>
#include <b10/quarantine/staging_only.hpp>
#include <b10/tag/low12.hpp>
#include <b10/transceiver.hpp>

/// The contract of v1 UCX transceivers, as policies: what B10 is compared with, under the same
/// faults. Nothing here is for use.
namespace b10::v1 {

/// Tags from the low 12 bits of the request id, success when the transport has taken the bytes, and
/// after a failure either staging alone sits out for a while (StagingOnly, the hardened fork) or
/// nothing does (None). Such a set trusts the tag alone: it registers no tags, looks neither at the
/// identity nor at the length of what it receives, keeps a generation after a failure, and calls
/// memory quiet while copies still touch it.
template <class StagingPolicy = staging::Host<slicing::Whole>,
          class QuarantinePolicy = quarantine::StagingOnly<>,
          class TransportPolicy = transport::Ucx>
  requires req::StagingIsLinked<StagingPolicy> && req::TransportIsLinked<TransportPolicy> &&
           Staging<StagingPolicy> && Quarantine<QuarantinePolicy> && Transport<TransportPolicy>
class Transceiver : public BasicTransceiver<StagingPolicy, tag::Low12, completion::SendComplete,
                                            QuarantinePolicy, TransportPolicy> {
  static_assert(!QuarantinePolicy::holds_identities, "a v1 set holds no identities");
  using BasicTransceiver<StagingPolicy, tag::Low12, completion::SendComplete, QuarantinePolicy,
                         TransportPolicy>::BasicTransceiver;
};

}  // namespace b10::v1
