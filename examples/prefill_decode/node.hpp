// The transceiver that both processes use, whatever it is composed of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/core/flight_recorder.hpp>
#include <b10/grant.hpp>
#include <b10/metrics.hpp>
#include <b10/transfer.hpp>
#include <b10/types.hpp>

#include "common/kv_memory.hpp"
#include "options.hpp"

namespace demo {

/// One WRITE, see b10::BasicWrite.
struct Write {
  b10::RequestId request{};
  std::span<b10::LocalSpan const> sources{};
  std::span<b10::RemoteSpan const> destinations{};
  Ready ready{};
  b10::Duration deadline{};
};

/// What the demo needs of a b10::Transceiver. An engine that knows its composition when it is
/// compiled holds that type itself; here the command line chooses, see NodeOf.
class Node {
 public:
  Node() = default;
  Node(Node const&) = delete;
  Node& operator=(Node const&) = delete;
  virtual ~Node() = default;

  [[nodiscard]] virtual std::string address() const = 0;
  virtual void register_memory(b10::LocalSpan region) = 0;
  virtual b10::PeerId connect(std::string const& address, b10::Duration limit) = 0;
  [[nodiscard]] virtual std::optional<b10::PeerId> peer(std::string_view name,
                                                        b10::Duration limit) = 0;
  [[nodiscard]] virtual b10::Transfer write(b10::PeerId peer, Write const& w) = 0;
  [[nodiscard]] virtual b10::Grant grant(b10::RequestId request,
                                         std::span<b10::LocalSpan const> spans, b10::Duration limit,
                                         std::optional<b10::PeerId> only_from) = 0;
  [[nodiscard]] virtual b10::Metrics const& metrics() const = 0;
  [[nodiscard]] virtual std::vector<b10::core::FlightEvent> flight_events() = 0;
  [[nodiscard]] virtual std::string explain() = 0;
};

struct NodeOptions {
  Options const& options;  ///< after choose_places()
  std::string name;
  std::string key;     ///< the secret of a run
  b10::Device device;  ///< where this process's KV lies
  std::size_t recorder_events = 0;
};

[[nodiscard]] std::unique_ptr<Node> make_host_node(NodeOptions const& n);
[[nodiscard]] std::unique_ptr<Node> make_gpu_pinned_node(NodeOptions const& n);
[[nodiscard]] std::unique_ptr<Node> make_gpu_shared_node(NodeOptions const& n);

[[nodiscard]] inline std::unique_ptr<Node> make_node(NodeOptions const& n) {
  if (n.device == b10::Device::host) return make_host_node(n);
  return n.options.staging == Staging::shared ? make_gpu_shared_node(n) : make_gpu_pinned_node(n);
}

/// A secret for the processes of one run.
inline std::string random_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 8; ++i) key += std::to_string(random());
  return key;
}

}  // namespace demo
