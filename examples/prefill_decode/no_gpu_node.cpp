// Stands in for compositions that need b10::cuda, in a build without; nobody finds a GPU there.
#include <stdexcept>

#include "node.hpp"

namespace demo {

std::unique_ptr<Node> make_gpu_pinned_node(NodeOptions const&) {
  throw std::logic_error("a build without CUDA has no GPU");
}

std::unique_ptr<Node> make_gpu_shared_node(NodeOptions const&) {
  throw std::logic_error("a build without CUDA has no GPU");
}

}  // namespace demo
