#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace b10 {

/// How a transfer ended.
enum class Status : std::uint8_t {
  landed,       ///< every destination byte is in place, proven by the receiver's copy events
  failed,       ///< not everything landed
  unconfirmed,  ///< everything was sent, RESULT never came: it may or may not have landed
  cancelled,    ///< ended by the caller or by the peer's caller
};

/// Why, one code per different reaction of the caller.
enum class Reason : std::uint8_t {
  none,
  invalid_request,  ///< the caller's arguments are wrong: fix the call
  refused,          ///< the receiver refused before READY: memory, grant, plan or limits do not fit
  deadline,         ///< time ran out: retry under a new request, or give more time
  peer_lost,        ///< the peer died, closed or fell silent: wait for it or choose another
  tag_collision,    ///< a derived tag is in use or quarantined: retry
  quarantine_full,  ///< too much memory sits out: back off until health recovers
  queue_limit,      ///< waited too long for admission, nothing was posted: back off
  integrity,    ///< length, header or digest of a message was wrong: suspect the network or peer
  copy_failed,  ///< a local gather, scatter or its event failed: suspect the device
  transport_failed,  ///< the transport refused to post or reported an error: reconnect
  protocol,          ///< the peer broke the protocol: suspect its version
  superseded,        ///< a newer attempt of the same transfer took over
  cancelled,
  shutting_down,
};

[[nodiscard]] constexpr std::string_view to_string(Status s) noexcept {
  switch (s) {
    case Status::landed:
      return "landed";
    case Status::failed:
      return "failed";
    case Status::unconfirmed:
      return "unconfirmed";
    case Status::cancelled:
      return "cancelled";
  }
  return "?";
}

inline constexpr std::string_view reason_names[] = {
    "none",       "invalid_request", "refused",          "deadline",
    "peer_lost",  "tag_collision",   "quarantine_full",  "queue_limit",
    "integrity",  "copy_failed",     "transport_failed", "protocol",
    "superseded", "cancelled",       "shutting_down"};
inline constexpr std::size_t reason_count = std::size(reason_names);
static_assert(reason_count == static_cast<std::size_t>(Reason::shutting_down) + 1);

[[nodiscard]] constexpr std::string_view to_string(Reason r) noexcept {
  auto const i = static_cast<std::size_t>(r);
  if (i >= reason_count) return "?";
  return reason_names[i];
}

/// The one terminal answer of a transfer on one side.
struct Outcome {
  Status status = Status::failed;
  Reason reason = Reason::none;
  std::uint64_t bytes = 0;             ///< bytes that landed (receiver) or were sent (sender)
  bool sources_quiescent = true;       ///< no local gather can still read the source spans
  bool destinations_quiescent = true;  ///< no local scatter can still write the destination spans
  std::string why{};                   ///< a sentence: value, limit and knob
  [[nodiscard]] bool ok() const noexcept { return status == Status::landed; }
};

/// Thrown by set-up calls (construction, connect, registration) and used inside the pipelines;
/// a transfer itself never throws, it ends in an Outcome.
class Error : public std::runtime_error {
 public:
  Error(Reason reason, std::string const& what) : std::runtime_error(what), reason_(reason) {}
  [[nodiscard]] Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

}  // namespace b10
