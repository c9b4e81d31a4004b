#include "support/cuda_memory.hpp"

namespace support {

namespace {
__global__ void store_nowhere() { *reinterpret_cast<int volatile*>(0x10) = 1; }
}  // namespace

void fault(cudaStream_t stream) { store_nowhere<<<1, 1, 0, stream>>>(); }

}  // namespace support
