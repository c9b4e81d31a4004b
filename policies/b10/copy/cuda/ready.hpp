#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <vector>

namespace b10::copy::cuda {

/// CUDA events after which the source bytes may be read: one for each device whose stream wrote
/// them. The lane asks them before the first gather; no gather is queued behind one, so an event
/// that never fires holds up nobody else. Borrowed: each must live until the transfer has ended or
/// its sources are released, and must have been recorded before write(). Default: ready at once.
struct SourceReady {
  std::vector<cudaEvent_t> events{};

  SourceReady() = default;
  SourceReady(cudaEvent_t event) : events{event} {}
  SourceReady(std::initializer_list<cudaEvent_t> list) : events(list) {}
};

}  // namespace b10::copy::cuda
