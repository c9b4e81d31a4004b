// kill -9 for the prefill process, at a moment that matters.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <sys/types.h>
#include <csignal>

#include <b10/steady_clock.hpp>

#include "node.hpp"

namespace demo {

/// Watches the flight recorder of the decode side until the chunk has arrived, then kills. The only
/// request under way must be the victim. Stops watching when destroyed.
class Killer {
 public:
  /// `killed` is set first, so that nobody is surprised.
  Killer(Node& node, std::uint64_t chunk, pid_t victim, std::atomic<bool>& killed)
      : thread_([=, &node, &killed, start = b10::steady_now()](std::stop_token stop) {
          auto const arrived = [&](auto const& e) {
            return e.at > start && e.stage == b10::core::Stage::data_received &&
                   to_integer(e.chunk) >= chunk;
          };
          while (!stop.stop_requested()) {
            auto const events = node.flight_events();
            if (std::any_of(events.begin(), events.end(), arrived)) {
              killed = true;
              ::kill(victim, SIGKILL);
              return;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace demo
