// Compositions for KV in host memory.
#include "node_of.hpp"

namespace demo {

std::unique_ptr<Node> make_host_node(NodeOptions const& n) {
  using Shared = b10::Transceiver<b10::staging::SharedHost<Slices>>;
  if (n.options.staging == Staging::shared) return make_node_of<Shared>(n, {});

  using Host = b10::Transceiver<b10::staging::Host<Slices>>;
  Host::Config c;
  c.staging.page_lock = b10::staging::PageLock::never;
  return make_node_of<Host>(n, std::move(c));
}

}  // namespace demo
