#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/core/span_list.hpp>
#include <b10/core/wire.hpp>
#include <b10/grant.hpp>
#include <b10/operation.hpp>
#include <b10/shared_views.hpp>
#include <b10/staging.hpp>
#include <b10/tag_scheme.hpp>
#include <b10/transfer.hpp>
#include <b10/transport.hpp>

namespace b10::core {

/// A peer's staging as seen from here; of a policy that shares none, nothing.
template <Staging S>
struct ReachOf {
  void open(S&, std::string_view) noexcept {}
  [[nodiscard]] explicit operator bool() const noexcept { return false; }
};
template <SharesViews S>
struct ReachOf<S> {
  void open(S& staging, std::string_view offer) {
    if (auto found = staging.reach(offer, why)) reach.emplace(std::move(*found));
  }
  [[nodiscard]] explicit operator bool() const noexcept { return reach.has_value(); }

  std::optional<typename S::Reach> reach{};
  std::string why{};  ///< why there is none
};

/// One chunk under way: its view, its copy and its message.
template <Staging S>
struct Slot {
  enum class State : std::uint8_t { idle, copying, wire };
  State state = State::idle;
  std::uint32_t chunk = 0;
  std::optional<typename S::View> view{};
  typename S::CopyEngine::Event event{};
  Operation operation{};
  std::uint64_t digest = 0;                                 ///< that DATA came with
  std::array<std::byte, wire::data_header_bytes> header{};  ///< all of DATA in a placed transfer
};

/// Everything of one attempt that the transport or a copy may still touch. It keeps its address,
/// and outlives its transfer in the endpoint's remains when the end was uncertain.
template <Staging S>
struct Flight {
  explicit Flight(std::size_t slot_count)
      : slots(std::make_unique<Slot<S>[]>(slot_count)), size(slot_count) {}

  Slot<S>* begin() noexcept { return slots.get(); }
  Slot<S>* end() noexcept { return slots.get() + size; }
  /// The transport may still complete something of it.
  [[nodiscard]] bool pending() noexcept {
    bool any = ready.pending() || result.pending();
    for (auto& s : *this) any = any || s.operation.pending();
    return any;
  }
  void detach() noexcept {
    ready.waker = result.waker = nullptr;
    for (auto& s : *this) s.operation.waker = nullptr;
  }

  Operation ready{};
  Operation result{};
  std::array<std::byte, wire::reply_bytes_max> ready_buffer{};
  std::array<std::byte, wire::reply_bytes_max> result_buffer{};
  std::vector<Tag> tags{};
  SpanList<LocalSpan> spans{};  ///< after a failure: what copies still under way read or write
  std::unique_ptr<Slot<S>[]> slots;
  std::size_t size;
};

/// A READY or RESULT on its way out; kept until its send has ended or its link is destroyed.
struct Reply {
  Operation operation{};
  std::array<std::byte, wire::reply_bytes_max> buffer{};
};

/// What a transfer leaves behind that did not land and had posted something.
template <Staging S>
struct Leftover {
  wire::Header header{};
  bool sending = false;
  std::unique_ptr<Flight<S>> flight{};
  std::shared_ptr<GrantRecord> grant{};      ///< receiving: of the scatters under way
  std::shared_ptr<TransferState> sources{};  ///< sending: told when no gather runs any more
  std::vector<std::byte> abort{};        ///< sending: frame that is still to be sent: at once, or
                                         ///< if placed, when nothing is written any more
  std::optional<wire::Unsent> unsent{};  ///< receiving: known when ABORT has come
  bool placed = false;                   ///< payloads go straight into the receiver's views
  std::uint32_t next = 0;                ///< receiving: first chunk no receive is posted for
  std::uint32_t chunks = 0;              ///< receiving: of the whole transfer
  std::uint64_t message_bytes = 0;       ///< receiving: of the longest DATA
  Instant until{};                       ///< to come to rest by itself
};

/// A local copy that was under way when its transfer failed.
template <Staging S>
struct PendingCopy {
  typename S::CopyEngine::Event event{};
  std::shared_ptr<GrantRecord> grant{};      ///< a scatter: the destination's grant
  std::shared_ptr<TransferState> sources{};  ///< a gather: told when the sources are quiet
};

/// What failed transfers of one generation left behind. Dies with its worker: worker first, then
/// this.
template <Staging S>
struct Remains {
  std::vector<std::unique_ptr<Flight<S>>> flights{};
  std::vector<typename S::Quarantined> views{};
  std::vector<Tag> tags{};
  std::vector<PendingCopy<S>> copies{};
  [[nodiscard]] bool empty() const noexcept { return flights.empty() && views.empty(); }
};

/// One (peer, generation): its link and what hangs on it.
template <Staging S, Transport T>
struct Endpoint {
  enum class State : std::uint8_t {
    live,
    superseded,  ///< a newer one is there: nothing starts on it here, what the peer starts goes on
    draining,    ///< takes no new transfer; running ones go on
    down,        ///< the link is gone
  };
  Endpoint(typename T::Link&& l, LinkInfo i, PeerId p)
      : id(l.id()), info(std::move(i)), peer(p), link(std::move(l)) {}

  [[nodiscard]] MessageIdentity identity(TransferId transfer, MessageKind kind,
                                         ChunkIndex chunk = {}) const noexcept {
    return {info.domain, info.generation, transfer, chunk, kind};
  }

  LinkId const id;
  LinkInfo const info;
  PeerId const peer;
  State state = State::live;
  unsigned users = 0;  ///< running transfers that hold it
  std::uint32_t notes_sent = 0;
  std::uint32_t notes_heard = 0;  ///< sequence of the last one
  Instant superseded_at{};
  bool penned = false;
  bool abandoned = false;  ///< past its time with a local copy that never ended
  Instant swept_at{};      ///< latest sweep into remains
  Instant closing_since{};
  // Declared before the link, so that even a plain destruction ends the worker first.
  ReachOf<S> reach{};
  Remains<S> remains{};
  std::vector<Leftover<S>> winding{};  ///< cancelled, and coming to rest (wind_down.hpp)
  std::vector<std::unique_ptr<Reply>> replies{};
  std::optional<typename T::Link> link;
};

}  // namespace b10::core
