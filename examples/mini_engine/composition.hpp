// What a rank is made of: a transceiver, an agent over it, a plane, and sessions over both. Where
// KV lies, and who computes it, is what HostComposition and GpuComposition say.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <b10/native_plane/zmq.hpp>
#include <b10/session/agent.hpp>
#include <b10/session/session_config.hpp>
#include <b10/session/session_node.hpp>
#include <b10/transceiver.hpp>

#include "block_manager.hpp"
#include "model.hpp"
#include "options.hpp"
#include "stream.hpp"
#include "timed_agent.hpp"

namespace mini {

/// KV in host memory.
struct HostComposition {
  using Transceiver = b10::HostTransceiver;
  using Stream = TimedStream;
  [[nodiscard]] static std::unique_ptr<demo::KvMemory> memory(Options const&, std::uint64_t bytes) {
    return std::make_unique<demo::HostKvMemory>(bytes);
  }
  static void configure(Options const&, Transceiver::Config&) {}
};

inline constexpr std::uint32_t aux_bytes = 64;

/// The block managers of a rank, one for each layer group. Each gets the same number of requests'
/// worth of blocks: a windowed group is small.
template <class Composition>
[[nodiscard]] std::vector<BlockManager> block_managers(Options const& o, std::uint64_t seed) {
  auto const model = demo::load_model(o.models, o.model, o.tp, demo::KvLayout::together);
  auto const groups = geometries(model, o.tp);
  std::vector<std::uint64_t> blocks, bytes;
  std::uint64_t request_bytes = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    blocks.push_back(demo::blocks_needed(model.groups[g], o.tokens, 0).count());
    bytes.push_back(ses::slot_bytes(groups[g], place_of(o.tp)));
    request_bytes += blocks[g] * bytes[g];
  }
  auto const requests = (o.pool_mib << 20) / request_bytes;
  if (requests < 2)
    throw std::runtime_error("--pool is " + std::to_string(o.pool_mib) + " MiB, but a request of " +
                             std::to_string(o.tokens) + " tokens takes " +
                             std::to_string((request_bytes >> 20) + 1) +
                             ": raise --pool to twice that, or lower --tokens");
  std::vector<BlockManager> out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto const slots = static_cast<std::uint32_t>(requests * blocks[g]);
    out.emplace_back(Composition::memory(o, 2 * BlockManager::margin + bytes[g] * slots), bytes[g],
                     slots, seed + g);
  }
  return out;
}

/// One rank. What stands above is used by what stands below.
template <class Composition>
class Rank {
 public:
  using Agent = b10::Agent<typename Composition::Transceiver>;
  using Timed = TimedAgent<Agent>;
  using Node = ses::SessionNode<Timed, b10::native_plane::Zmq>;

  Rank(Options const& o, std::string const& name, std::string const& key,
       std::vector<BlockManager> const& managers)
      : transceiver_(transceiver_config(o, name, key)),
        agent_(transceiver_, {.name = name}),
        timed_(agent_),
        plane_({.bind = "tcp://127.0.0.1:*"}),
        node_(timed_, plane_, node_options(o, name, managers)) {}

  Rank(Rank const&) = delete;
  Rank& operator=(Rank const&) = delete;
  /// Before what its callbacks touch goes.
  ~Rank() { agent_.shutdown(b10::seconds(1)); }

  [[nodiscard]] Agent& agent() { return agent_; }
  [[nodiscard]] Timed& timed() { return timed_; }
  [[nodiscard]] b10::native_plane::Zmq& plane() { return plane_; }
  [[nodiscard]] Node& node() { return node_; }
  [[nodiscard]] b10::Metrics const& metrics() const { return transceiver_.metrics(); }

 private:
  static auto transceiver_config(Options const& o, std::string const& name,
                                 std::string const& key) {
    typename Composition::Transceiver::Config c;
    c.name = name;
    c.layout = o.model + " tp" + std::to_string(o.tp) + " page32";
    c.staging.buffers = 2;
    c.staging.buffer_bytes = std::uint64_t{64} << 20;
    c.transport.listen = "127.0.0.1:0";
    c.transport.key = key;
    Composition::configure(o, c);
    return c;
  }
  static ses::NodeOptions node_options(Options const& o, std::string const& name,
                                       std::vector<BlockManager> const& managers) {
    auto const limit = b10::milliseconds(static_cast<std::int64_t>(o.deadline_ms));
    ses::SessionSettings settings;
    settings.pipelined = settings.early_prefix = o.pipelined;
    settings.operation_limit = settings.session_limit = limit;
    ses::SessionConfig const config(settings, {}, [](std::string_view variable) {
      auto const* value = std::getenv(std::string(variable).c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    });
    ses::NodeShape shape;
    shape.name = name;
    shape.place = place_of(o.tp);
    shape.compat_key = o.model;
    shape.aux_bytes = aux_bytes;
    auto const model = demo::load_model(o.models, o.model, o.tp, demo::KvLayout::together);
    auto const groups = geometries(model, o.tp);
    for (std::size_t g = 0; g < groups.size(); ++g)
      shape.groups.push_back({groups[g], managers[g].pool()});
    return ses::NodeOptions::of(std::move(shape), config);
  }

  typename Composition::Transceiver transceiver_;
  Agent agent_;
  Timed timed_;
  b10::native_plane::Zmq plane_;
  Node node_;
};

}  // namespace mini
