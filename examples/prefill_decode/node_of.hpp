// A composition behind the interface Node.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <b10/transceiver.hpp>

#include "node.hpp"

namespace demo {

/// The reference slicing with slices of up to 8 MiB. A slice is never larger than its staging
/// buffer, so buffers of one slice each make --slice a choice at run time.
using Slices = b10::slicing::Pipelined<slice_max, 4>;

inline constexpr std::uint64_t staging_bytes = std::uint64_t{128} << 20;

template <class Transceiver>
class NodeOf : public Node {
 public:
  explicit NodeOf(typename Transceiver::Config config) : transceiver_(std::move(config)) {}

  [[nodiscard]] std::string address() const override { return transceiver_.address(); }
  void register_memory(b10::LocalSpan region) override { transceiver_.register_memory(region); }
  b10::PeerId connect(std::string const& address, b10::Duration limit) override {
    return transceiver_.connect(address, limit);
  }
  [[nodiscard]] std::optional<b10::PeerId> peer(std::string_view name,
                                                b10::Duration limit) override {
    return transceiver_.peer(name, limit);
  }
  [[nodiscard]] b10::Transfer write(b10::PeerId peer, Write const& w) override {
    typename Transceiver::Write write{.request = w.request,
                                      .sources = w.sources,
                                      .destinations = w.destinations,
                                      .deadline = w.deadline};
    // Host memory is always ready here, so its compositions never see an event.
    if constexpr (std::is_constructible_v<decltype(write.ready), CUevent_st*>)
      if (w.ready) write.ready = w.ready.get();
    return transceiver_.write(peer, write);
  }
  [[nodiscard]] b10::Grant grant(b10::RequestId request, std::span<b10::LocalSpan const> spans,
                                 b10::Duration limit,
                                 std::optional<b10::PeerId> only_from) override {
    return transceiver_.grant(request, spans, limit, only_from);
  }
  [[nodiscard]] b10::Metrics const& metrics() const override { return transceiver_.metrics(); }
  [[nodiscard]] std::vector<b10::core::FlightEvent> flight_events() override {
    return transceiver_.flight_events();
  }
  [[nodiscard]] std::string explain() override { return transceiver_.explain(); }

 private:
  Transceiver transceiver_;
};

/// Adds what every composition is told alike to what is special about one.
template <class Transceiver>
std::unique_ptr<Node> make_node_of(NodeOptions const& n, typename Transceiver::Config c) {
  auto const& o = n.options;
  c.name = n.name;
  // Peers that cut their pages differently must not meet.
  c.layout = o.model + " tp" + std::to_string(o.tp) + " bf16 page32 " +
             (o.kv == KvLayout::together ? "kv" : "k+v");
  c.staging.buffer_bytes = o.slice;
  c.staging.buffers = staging_bytes / o.slice;
  c.transport.listen = "127.0.0.1:0";
  c.transport.key = n.key;
  c.transport.wire = o.wire;
  c.recorder_events = n.recorder_events;
  return std::make_unique<NodeOf<Transceiver>>(std::move(c));
}

}  // namespace demo
