#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// What can happen to a transfer, in protocol order.
enum class Stage : std::uint8_t {
  control_sent,
  ready_received,
  gather_started,
  gather_done,
  data_posted,
  data_sent,
  result_received,
  control_received,
  ready_sent,
  data_received,
  scatter_started,
  scatter_done,
  landed,
  result_sent,
  swept,
  settled,
};

inline constexpr std::string_view stage_names[] = {
    "control_sent", "ready_received", "gather_started",  "gather_done",
    "data_posted",  "data_sent",      "result_received", "control_received",
    "ready_sent",   "data_received",  "scatter_started", "scatter_done",
    "landed",       "result_sent",    "swept",           "settled"};
[[nodiscard]] constexpr std::string_view to_string(Stage s) noexcept {
  return stage_names[static_cast<std::size_t>(s)];
}

struct FlightEvent {
  Instant at{};
  TransferId transfer{};
  ChunkIndex chunk{};
  Stage stage{};
};

/// A ring of the latest events of a lane; capacity 0 (the default) records nothing and reads no
/// clock.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity) : ring_(capacity) {}
  [[nodiscard]] bool enabled() const noexcept { return !ring_.empty(); }
  void record(FlightEvent e) noexcept {
    ring_[next_ % ring_.size()] = e;
    ++next_;
  }
  /// Oldest first.
  [[nodiscard]] std::vector<FlightEvent> events() const {
    std::vector<FlightEvent> out;
    std::uint64_t const size = ring_.size();
    for (std::uint64_t i = next_ > size ? next_ - size : 0; i < next_; ++i)
      out.push_back(ring_[i % size]);
    return out;
  }

 private:
  std::vector<FlightEvent> ring_;
  std::uint64_t next_ = 0;
};

}  // namespace b10::core
