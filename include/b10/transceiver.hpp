#pragma once

// The one include. B10 has three include roots: include/, policies/ and kernels/; installed they
// are one.
#if !__has_include(<b10/staging/host.hpp>)
#error "B10: include root 'policies' is missing: link b10::b10, or add -I<b10>/policies"
#endif

#include <b10/completion/copy_event.hpp>
#include <b10/completion/digested.hpp>
#include <b10/contract.hpp>
#include <b10/copy/fake.hpp>
#include <b10/copy/memcpy.hpp>
#include <b10/core/transceiver.hpp>
#include <b10/quarantine/ttl.hpp>
#include <b10/slicing/chunked.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/slicing/whole.hpp>
#include <b10/staging/host.hpp>
#include <b10/staging/shared_host.hpp>
#include <b10/tag/hashed.hpp>
#include <b10/transport/loopback.hpp>
#include <b10/transport/sim.hpp>
#include <b10/unmet.hpp>
#include <b10/version.hpp>
#ifdef B10_WITH_CUDA  // set by the targets b10::cuda and b10::cuda_header_only
#include <b10/copy/copy_engine_batch.hpp>
#include <b10/copy/direct.hpp>
#include <b10/copy/peer.hpp>
#include <b10/copy/staged.hpp>
#include <b10/staging/cuda_pinning.hpp>
#include <b10/staging/device.hpp>
#include <b10/staging/pinned_host.hpp>
#endif
#ifdef B10_WITH_UCX  // set by the target b10::ucx; adds a name, changes none
#include <b10/transport/ucx.hpp>
#endif

namespace b10 {

// Named here even where their libraries are not linked, so that a composition means the same
// everywhere.
namespace copy {
class Staged;
}
namespace staging {
template <class SlicingPolicy, class Engine>
class PinnedHost;
}
namespace transport {
class Ucx;
}

namespace req {

template <class P>
concept StagingIsLinked = requires {
  sizeof(P);
} || unmet<"this staging needs CUDA: link b10::cuda, or use b10::HostTransceiver">;

template <class P>
concept TransportIsLinked =
    requires { sizeof(P); } || unmet<"this transport needs its library: link b10::ucx">;

}  // namespace req

/// The reference composition by default: pinned host staging, registered hashed tags, success only
/// after destination copy events, 120 s quarantine on any uncertainty, UCX. Swap any policy;
/// BasicTransceiver has the functions.
template <class StagingPolicy = staging::PinnedHost<slicing::Pipelined<>, copy::Staged>,
          class Tags = tag::Hashed, class CompletionPolicy = completion::CopyEvent,
          class QuarantinePolicy = quarantine::Ttl<120>, class TransportPolicy = transport::Ucx>
  requires req::StagingIsLinked<StagingPolicy> && req::TransportIsLinked<TransportPolicy> &&
           Staging<StagingPolicy> && TagScheme<Tags> && Completion<CompletionPolicy> &&
           Quarantine<QuarantinePolicy> && Transport<TransportPolicy> &&
           req::DigestsCopies<
               detail::EngineToDigest<CompletionPolicy, typename StagingPolicy::CopyEngine>> &&
           req::ChecksDigestedMessages<CompletionPolicy, Tags, QuarantinePolicy>
class Transceiver : public BasicTransceiver<StagingPolicy, Tags, CompletionPolicy, QuarantinePolicy,
                                            TransportPolicy> {
  using BasicTransceiver<StagingPolicy, Tags, CompletionPolicy, QuarantinePolicy,
                         TransportPolicy>::BasicTransceiver;
};

#ifdef B10_WITH_UCX
/// The reference without a GPU: KV in host memory. Between processes of one host payloads are
/// written straight into the receiver's staging; between hosts, or with Options::share off, UCX
/// carries them.
using HostTransceiver = Transceiver<staging::SharedHost<>>;
#endif

}  // namespace b10
