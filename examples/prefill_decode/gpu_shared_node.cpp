// Compositions for KV in GPU memory with staging that both processes map.
#include <b10/staging/cuda_pinning.hpp>

#include "gpu_engine.hpp"
#include "node_of.hpp"

namespace demo {

std::unique_ptr<Node> make_gpu_shared_node(NodeOptions const& n) {
  return with_engine(n.options, [&]<class Engine>(std::type_identity<Engine>) {
    using Shared =
        b10::Transceiver<b10::staging::SharedHost<Slices, Engine, b10::staging::CudaPinning>>;
    typename Shared::Config c;
    c.staging.pinning.device = to_integer(n.device);
    c.staging.copies.devices = {to_integer(n.device)};
    return make_node_of<Shared>(n, std::move(c));
  });
}

}  // namespace demo
