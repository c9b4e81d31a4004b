#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <b10/outcome.hpp>
#include <b10/time.hpp>

namespace b10::transport::ucx {

/// Which UCX transports may carry bytes. Never all of them: cma, knem, xpmem and cuda_ipc write
/// into memory after a cancel and even after the worker is gone, so no quarantine could contain
/// them.
enum class Wire : std::uint8_t {
  tcp,            ///< crash-safe; for one host and for many
  shared_memory,  ///< posix; opt-in: the processes share their fate (a killed sender can wedge its
                  ///< receiver's queue, a stopped one is found by heartbeats only)
};

[[nodiscard]] constexpr char const* to_string(Wire wire) noexcept {
  return wire == Wire::tcp ? "tcp" : "posix";
}

/// Set-up of one transport object. Checked by the constructor, constant afterwards.
struct Options {
  /// Numeric "host:port" or "[v6]:port" where peers connect; port 0: the system chooses, address()
  /// tells. Empty: this node only connects. Trusted networks only: UCX's own data ports check
  /// nobody.
  std::string listen = "127.0.0.1:0";
  /// Secret that every node shares, at least 16 bytes, from a random source.
  std::string key{};
  Wire wire = Wire::tcp;
  /// Network interface of the data plane, "lo" or "eth0". Empty: the one that owns the listen
  /// address.
  std::string net_device{};
  /// "first-last": TCP ports for the data plane, for a firewall. Empty: the system chooses.
  std::string port_range{};
  /// How often this node says that it is alive; [10 ms, 60 s].
  Duration heartbeat = seconds(1);
  /// A peer is given up after this many intervals without a word; at least 2.
  unsigned heartbeat_misses = 3;
  /// An inbound connection that has not come up by then is closed; more than 0.
  Duration handshake = seconds(5);
  /// Inbound connections that have not proven the key. One more evicts the oldest.
  unsigned handshakes_max = 64;
  /// wait() polls this long before it sleeps; a wake-up from sleep costs about 50 us.
  Duration spin = microseconds(50);
};

/// What was turned away; each attempt counts once.
struct Counters {
  std::uint64_t junk = 0;           ///< not our magic, or a frame that is none
  std::uint64_t wrong_version = 0;  ///< our magic, another protocol
  std::uint64_t wrong_key = 0;      ///< a proof or authentication code that does not fit
  std::uint64_t oversize = 0;       ///< a frame longer than its place allows
  std::uint64_t expired = 0;        ///< not up within Options::handshake
  std::uint64_t evicted = 0;        ///< made room under Options::handshakes_max
  std::uint64_t refused = 0;        ///< proven, but incompatible or unwelcome
  std::uint64_t bad_controls = 0;   ///< control message not authentic or out of sequence
  std::uint64_t silent = 0;         ///< links given up after missed heartbeats
};

inline constexpr std::size_t key_bytes_min = 16;
/// Every message of this size or more goes by rendezvous, every smaller one fits one fragment and
/// so arrives whole or not at all. A multi-fragment eager message whose sender dies never
/// completes.
inline constexpr std::size_t rendezvous_bytes = 8000;

/// Throws Error (invalid_request) that names value, limit and knob.
inline void check(Options const& o) {
  auto const refuse = [](std::string const& what) { throw Error(Reason::invalid_request, what); };
  if (o.key.size() < key_bytes_min) {
    refuse("Options::key has " + std::to_string(o.key.size()) + " bytes, at least " +
           std::to_string(key_bytes_min) + " are needed: all nodes need the same random secret");
  }
  if (o.heartbeat < milliseconds(10) || o.heartbeat > seconds(60)) {
    refuse("Options::heartbeat is " + std::to_string(o.heartbeat.ns) +
           " ns, it must lie within 10 ms and 60 s");
  }
  if (o.heartbeat_misses < 2) {
    refuse("Options::heartbeat_misses is " + std::to_string(o.heartbeat_misses) +
           ", at least 2 are needed: one late packet is no death");
  }
  if (o.handshake <= Duration{}) {
    refuse("Options::handshake is " + std::to_string(o.handshake.ns) + " ns, it must be above 0");
  }
  if (o.handshakes_max == 0) refuse("Options::handshakes_max is 0, at least 1 is needed");
  if (o.listen.empty() && o.net_device.empty() && o.wire == Wire::tcp) {
    refuse(
        "Options::net_device is empty and there is no Options::listen to derive it from: name "
        "the interface of the data plane");
  }
}

}  // namespace b10::transport::ucx
