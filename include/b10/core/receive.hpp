#pragma once

#include <algorithm>
#include <array>
#include <b10/core/descriptors.hpp>
#include <b10/core/endpoint.hpp>
#include <b10/core/fence.hpp>
#include <b10/core/plan.hpp>
#include <b10/core/span_list.hpp>
#include <b10/core/task.hpp>
#include <b10/core/wire.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace b10::core {

/// One WRITE on its receiver.
template <class Types>
struct Receive {
  using Endpoint = typename Types::Endpoint;
  using Flight = typename Types::Flight;

  Receive(ReadyList& ready, DeadlineQueue& deadlines, Instant now, Instant deadline, Endpoint& e,
          wire::Control const& c)
      : fence(ready, deadlines, now, deadline),
        endpoint(&e),
        control(c),
        unpacker(c.spans, c.bytes),
        refusal(unpacker.feed(c.segment)),
        cutter(std::max<std::uint64_t>(1, c.slice_bytes)) {
    control.segment = {};  // it pointed into the frame
    last_segment = c.last_segment;
  }

  Fence fence;
  Endpoint* endpoint;
  wire::Control control;
  DescriptorUnpacker unpacker;
  std::string refusal;  ///< why the descriptors are not acceptable
  std::uint32_t segments = 0;
  bool last_segment = false;
  Cutter cutter;          ///< of the spans that have been permitted
  bool complete = false;  ///< all of them have, and they are what CONTROL announced
  bool superseded = false;
  bool aborted = false;                  ///< by the sender, which may have said how:
  std::optional<wire::Unsent> unsent{};  ///< what it has not sent

  std::vector<std::uint64_t> new_places{};  ///< of a placed transfer: to be told to the sender
  std::shared_ptr<GrantRecord> grant{};
  SpanList<LocalSpan> spans{};
  std::unique_ptr<Flight> flight{};  ///< not null from the first post on
  bool ready_sent = false;
  std::uint32_t next = 0;    ///< first chunk no receive is posted for
  std::uint32_t landed = 0;  ///< chunks whose scatter has ended
  std::uint64_t bytes_landed = 0;
  Task task{};
  std::size_t place = 0;  ///< for Running

  /// Those whose spans are known and permitted.
  [[nodiscard]] std::vector<Chunk> const& chunks() const noexcept { return cutter.chunks(); }
  [[nodiscard]] TransferId id() const noexcept { return control.header.transfer; }
};

}  // namespace b10::core
