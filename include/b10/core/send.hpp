#pragma once

#include <algorithm>
#include <array>
#include <b10/core/descriptors.hpp>
#include <b10/core/endpoint.hpp>
#include <b10/core/fence.hpp>
#include <b10/core/plan.hpp>
#include <b10/core/task.hpp>
#include <b10/core/wire.hpp>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace b10::core {

/// One WRITE on its sender.
template <class Types>
struct Send {
  using Endpoint = typename Types::Endpoint;
  using Flight = typename Types::Flight;

  Send(ReadyList& ready, DeadlineQueue& deadlines, Instant now, Instant queue_deadline)
      : fence(ready, deadlines, now, queue_deadline, Reason::queue_limit) {}

  Fence fence;
  std::shared_ptr<TransferState> state{};
  PeerId peer{};
  RequestId request{};
  Plan plan{};
  typename Types::SourceReady source_ready{};
  Instant deadline{};

  Endpoint* endpoint = nullptr;
  TransferId id{};          ///< 0 until the first attempt; kept over attempts
  Incarnation named_for{};  ///< of the peer, that `id` was drawn for
  Attempt attempt{};
  bool link_lost = false;    ///< before READY: reason for another attempt, not for failure
  std::uint32_t faults = 0;  ///< links lost before READY other than by the peer's goodbye
  bool accepted = false;     ///< READY said yes
  bool admitted = false;
  bool refused = false;  ///< READY said no: nothing is uncertain
  std::uint64_t connects_failed_before = 0;
  std::unique_ptr<Flight> flight{};
  bool placed = false;                 ///< payloads go straight into the peer's views
  std::deque<std::uint64_t> places{};  ///< of chunks from `next` on
  std::uint32_t placed_until = 0;      ///< first chunk that has been given no place yet
  std::optional<DescriptorPacker> packer{};
  std::uint32_t descriptor_segments = 0;

  std::vector<Chunk> chunks{};
  std::uint32_t next = 0;      ///< first chunk whose gather has not started
  std::uint32_t gathered = 0;  ///< chunks whose gather has ended
  std::uint32_t posted = 0;    ///< chunks handed to the transport
  std::uint32_t sent = 0;      ///< chunks the transport has done with
  std::size_t window = 1;
  StageTimes stages{};
  Instant stage_start{};
  Task task{};
  std::size_t place = 0;  ///< for Running

  void lose_link(LinkDown how) noexcept {
    if (!std::exchange(link_lost, true) && how != LinkDown::bye) ++faults;
  }
  [[nodiscard]] wire::Header header() const noexcept {
    return {MessageKind::control, endpoint->info.generation, id, attempt};
  }
};

}  // namespace b10::core
