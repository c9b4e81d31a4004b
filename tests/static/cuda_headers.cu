#include "all_headers.hpp"

__global__ void a_kernel_beside_the_library() {}
