#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <b10/core/memory_map.hpp>
#include <b10/time.hpp>

namespace b10 {

using core::Grants;

enum class Progress : std::uint8_t {
  thread,  ///< the transceiver turns its lane on a thread of its own: spins a little, then sleeps
  manual,  ///< the caller turns it with progress(), always from one thread
};

/// Configuration of a transceiver: checked by its constructor, then immutable.
template <class StagingOptions, class TransportOptions>
struct BasicConfig {
  /// Unique among the peers of a node, 1..255 bytes.
  std::string name{};
  /// Opaque compatibility key of the layer above (geometry, model, revision): peers with another
  /// are refused.
  std::string layout{};
  StagingOptions staging{};
  TransportOptions transport{};
  /// Chunks of one transfer in flight, at most; the slicing policy's depth bounds it too. >= 1.
  unsigned max_in_flight_ops = 8;
  /// Bytes of running sends; more wait in order. Transfers up to small_bytes pass. 0: twice the
  /// staging pool.
  std::uint64_t admission_bytes = 0;
  std::uint64_t small_bytes = 64 * 1024;
  /// Spans of one transfer, at most (both directions). A span costs 24 B while it runs.
  std::uint64_t spans_max = std::uint64_t{1} << 21;
  /// Transfers received at once, at most; more are refused.
  std::uint64_t receives_max = 4096;
  /// Longest time a received transfer may take, whatever its sender says.
  Duration receive_limit = seconds(120);
  /// Longest time one attempt to reconnect may take; transfers that wait keep their own deadlines.
  Duration connect_limit = seconds(5);
  /// Bytes that may sit in quarantine before new transfers are refused. 0: half the staging pool.
  std::uint64_t quarantine_bytes_max = 0;
  /// Generations that may sit in quarantine before new transfers are refused. Each keeps a worker:
  /// over UCX some 4 MB and ten file descriptors.
  std::uint64_t generations_penned_max = 64;
  /// Notifications of peers that may wait to be read; more are dropped and counted.
  std::size_t notes_max = 1024;
  Grants grants = Grants::strict;
  Progress progress = Progress::thread;
  /// How long the progress thread spins after the last event before it sleeps.
  Duration spin = microseconds(50);
  /// Events kept by the flight recorder; 0: off, no clock is read for it.
  std::size_t recorder_events = 0;
};

}  // namespace b10
