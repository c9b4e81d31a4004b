// A rank with KV in GPU memory: the reference, and a model made of kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <b10/steady_clock.hpp>
#include <b10/transceiver.hpp>

#include "common/gpu.hpp"
#include "options.hpp"
#include "stream.hpp"

namespace mini {

/// Prefill has the first GPU, decode the last: two if there are two.
[[nodiscard]] inline int gpu_of(Options const& o) {
  auto const gpus = demo::find_gpus();
  if (gpus.names.empty())
    throw std::runtime_error("--memory is 'gpu', but there is no GPU: " + gpus.why_none);
  return o.prefill ? 0 : static_cast<int>(gpus.names.size()) - 1;
}

/// Steps as kernels on a stream. Events fire there; a thread waits for them too, for the figures
/// and so that blocks come back.
class GpuStream {
 public:
  using Event = b10::copy::cuda::SourceReady;

  explicit GpuStream(Options const& o) : steps_(demo::make_gpu_steps(gpu_of(o))) {}
  [[nodiscard]] Launched<Event> launch(Step step) {
    std::vector<demo::GpuSteps::Fill> fills;
    for (auto const& f : step.fills) fills.push_back({f.memory->base(), f.page});
    auto const launched = b10::steady_now();
    auto event = steps_->launch(fills, step.time);
    worker_.push({std::move(step), event, launched});
    return {event.get(), event};
  }
  [[nodiscard]] std::size_t pending() const { return worker_.pending(); }

 private:
  struct Work {
    Step step;
    demo::Ready event;
    b10::Instant launched;
  };
  void run(Work const& work) {
    auto const begin = std::max(work.launched, last_end_);
    steps_->wait(work.event);
    last_end_ = b10::steady_now();
    work.step.ended(begin, last_end_);
  }

  std::unique_ptr<demo::GpuSteps> steps_;
  b10::Instant last_end_{};
  Worker<Work> worker_{[this](Work& w) { run(w); }};  // last: it uses what stands above
};

struct GpuComposition {
  using Transceiver = b10::Transceiver<>;
  using Stream = GpuStream;
  [[nodiscard]] static std::unique_ptr<demo::KvMemory> memory(Options const& o,
                                                              std::uint64_t bytes) {
    return demo::make_gpu_memory(gpu_of(o), bytes);
  }
  static void configure(Options const& o, Transceiver::Config& c) {
    c.staging.device = gpu_of(o);
    c.staging.copies.devices = {gpu_of(o)};
  }
};

}  // namespace mini
