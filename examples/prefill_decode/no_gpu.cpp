// Stands in for what needs CUDA in a build without b10::cuda. find_gpus() finds none, so that the
// rest is never asked for.
#include <stdexcept>

#include "gpu.hpp"
#include "node.hpp"

namespace demo {
namespace {

constexpr char const* why = "this build has no CUDA: configure it where CUDA 13 with nvcc is";

}  // namespace

Gpus find_gpus() { return {{}, why}; }

std::unique_ptr<KvMemory> make_gpu_memory(int, std::uint64_t) { throw std::runtime_error(why); }

std::unique_ptr<Node> make_gpu_pinned_node(NodeOptions const&) { throw std::runtime_error(why); }

std::unique_ptr<Node> make_gpu_shared_node(NodeOptions const&) { throw std::runtime_error(why); }

}  // namespace demo
