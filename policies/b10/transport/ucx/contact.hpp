#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/time.hpp>
#include <b10/transport.hpp>
#include <b10/transport/ucx/bootstrap_socket.hpp>
#include <b10/transport/ucx/handshake.hpp>
#include <b10/transport/ucx/link.hpp>

namespace b10::transport::ucx {

/// A connection on its way to becoming a link.
struct Contact {
  enum class Step : std::uint8_t {
    greet,     ///< both: the other side's version and nonce
    proof,     ///< server: that the client has the key
    identify,  ///< client: that the server has the key, and who it is
    offer,     ///< server: who the client is, and its worker
    accept,    ///< client: the generation, and the server's worker
    confirm,   ///< server: that the client has made its endpoint
    wire_up,   ///< both: a knock and the first control message
    over,      ///< became a link, or failed
  };

  Contact(Role own_role, std::string other_address, Instant until)
      : role(own_role), address(std::move(other_address)), deadline(until) {}

  Role role;
  std::string address;  ///< dialled, or where it came from
  Instant deadline;
  ConnectId connect{};
  Step step = Step::greet;
  std::string failure{};  ///< client: it failed before it began
  std::unique_ptr<BootstrapSocket> socket{};
  Nonce nonce = random_nonce();
  std::optional<KeySchedule> keys{};
  bool proven = false;
  LinkInfo info{};
  Generation floor{};  ///< what was agreed must be above
  Duration peer_heartbeat{};
  std::vector<std::byte> peer_worker{};  ///< server: the client's worker address
  std::shared_ptr<LinkState> link{};

  [[nodiscard]] bool over() const noexcept { return step == Step::over; }

  /// What the peer failed to do, for a person.
  [[nodiscard]] char const* waiting_for() const noexcept {
    switch (step) {
      case Step::greet:
        return "it has not greeted";
      case Step::proof:
        return "it has not proven the key";
      case Step::identify:
        return "it has not answered the proof of the key";
      case Step::offer:
        return "it has not offered its worker";
      case Step::accept:
        return "it has not accepted";
      case Step::confirm:
        return "it has not confirmed";
      case Step::wire_up:
        return "no message came through UCX";
      case Step::over:
        break;
    }
    return "over";
  }
  /// Why the stream may have ended here, for a person.
  [[nodiscard]] char const* hint() const noexcept {
    switch (step) {
      case Step::greet:
        return "it does not speak this protocol, or has too many connections";
      case Step::identify:
        return "the keys differ: compare Options::key of both nodes";
      default:
        return "see the other node's log";
    }
  }
};

}  // namespace b10::transport::ucx
