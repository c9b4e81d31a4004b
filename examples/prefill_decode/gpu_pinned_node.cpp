// Compositions for KV in GPU memory with pinned staging; with copy::Staged it is the reference.
#include "gpu_engine.hpp"
#include "node_of.hpp"

namespace demo {

std::unique_ptr<Node> make_gpu_pinned_node(NodeOptions const& n) {
  return with_engine(n.options, [&]<class Engine>(std::type_identity<Engine>) {
    using Pinned = b10::Transceiver<b10::staging::PinnedHost<Slices, Engine>>;
    typename Pinned::Config c;
    c.staging.device = to_integer(n.device);
    c.staging.copies.devices = {to_integer(n.device)};
    return make_node_of<Pinned>(n, std::move(c));
  });
}

}  // namespace demo
