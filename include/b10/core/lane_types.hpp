#pragma once

#include <b10/completion.hpp>
#include <b10/config.hpp>
#include <b10/contract.hpp>
#include <b10/core/endpoint.hpp>
#include <b10/core/links.hpp>
#include <b10/core/receive.hpp>
#include <b10/core/send.hpp>
#include <b10/quarantine.hpp>
#include <b10/staging.hpp>
#include <b10/tag_scheme.hpp>
#include <b10/transport.hpp>

namespace b10::core {

/// The types that follow from five policies; what the parts of a lane are templates of.
template <b10::Staging S, TagScheme G, b10::Completion C, b10::Quarantine Q, b10::Transport T>
struct LaneTypes {
  using Staging = S;
  using Tags = G;
  using Completion = C;
  using Quarantine = Q;
  using Transport = T;
  using Config = BasicConfig<typename S::Options, typename T::Options>;
  using View = typename S::View;
  using SourceReady = typename S::CopyEngine::SourceReady;
  using Endpoint = core::Endpoint<S, T>;
  using Flight = core::Flight<S>;
  using Slot = core::Slot<S>;
  using Send = core::Send<LaneTypes>;
  using Receive = core::Receive<LaneTypes>;
  using Links = core::Links<S, T, Receive>;
  /// A failure ends its generation, whose names sit out with everything that may still be touched.
  static constexpr bool retires_generations = Q::holds_identities;
  static constexpr bool guards_identities = checks_messages<G, Q>;
  /// A cancelled transfer may come to rest by itself: both sides say how it ended, and nothing of
  /// it can be taken for anything else.
  static constexpr bool winds_down = retires_generations && guards_identities && C::proves_landing;
};

}  // namespace b10::core
