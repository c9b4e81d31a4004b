#pragma once

#include <cstdint>

#include <b10/sim/journal.hpp>
#include <b10/time.hpp>

namespace b10::transport::sim {

/// How messages longer than eager_bytes go.
enum class LongMessages : std::uint8_t {
  rendezvous,  ///< read from the sender's buffer once a receive has matched
  eager,       ///< many fragments, sent before anybody wants them: one that loses its sender in the
               ///< middle never ends
  either,      ///< drawn for each message
};

/// Whether progress() may move the clock.
enum class Clock : std::uint8_t {
  by_hand,      ///< only Network::advance() and Sim::wait() do
  by_progress,  ///< a progress() with nothing to do also moves it to the next event
};

/// Values in effect for all nodes of a simulated network.
struct NetworkOptions {
  std::uint64_t seed = 1;
  Duration latency_min = microseconds(2);  ///< of one message, and of one piece of it
  Duration latency_max = microseconds(20);
  std::uint64_t eager_bytes = 8000;  ///< shorter messages arrive whole or not at all
  LongMessages long_messages = LongMessages::rendezvous;
  std::uint32_t pieces_min = 1;  ///< a long message lands in so many pieces
  std::uint32_t pieces_max = 4;
  Duration silence = seconds(3);  ///< a stopped node's peers think it dead after this
  Clock clock = Clock::by_hand;
  b10::sim::Namer namer = nullptr;
  bool keep_journal = false;
};

}  // namespace b10::transport::sim
