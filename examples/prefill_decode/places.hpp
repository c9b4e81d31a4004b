// Where the KV pools of both processes lie.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <b10/types.hpp>

#include "common/gpu.hpp"
#include "options.hpp"

namespace demo {

struct Places {
  b10::Device prefill = b10::Device::host;
  b10::Device decode = b10::Device::host;
  std::string text{};  ///< for the user
};

namespace detail {

inline Places on_gpus(Gpus const& gpus) {
  auto const named = [&](std::size_t i) {
    return "GPU " + std::to_string(i) + " (" + gpus.names[i] + ")";
  };
  Places out{b10::Device{0}, b10::Device{0}, "KV in GPU memory, "};
  if (gpus.names.size() == 1) {
    out.text += "both processes on " + named(0) + ", the only one";
  } else {
    out.decode = b10::Device{1};
    out.text += "prefill on " + named(0) + ", decode on " + named(1);
  }
  out.text += "; a kernel writes the source pages, and a gather waits for its event";
  return out;
}

}  // namespace detail

/// Decides what `--memory auto` is on this machine, and the defaults that follow from it. Throws
/// std::runtime_error where something is asked for that is not there.
inline Places choose_places(Options& o) {
  Gpus gpus;
  if (o.memory != Memory::host) gpus = find_gpus();
  if (o.memory == Memory::gpu && gpus.names.empty())
    throw std::runtime_error("--memory is 'gpu', but there is no GPU: " + gpus.why_none);
  bool const automatic = o.memory == Memory::automatic;
  o.memory = gpus.names.empty() ? Memory::host : Memory::gpu;
  if (o.slice == 0) o.slice = o.memory == Memory::gpu ? slice_gpu : slice_host;
  if (o.memory == Memory::gpu) return detail::on_gpus(gpus);

  std::string where = "KV in host memory";
  if (automatic) where += ", because there is no GPU: " + gpus.why_none;
  if (o.engine) throw std::runtime_error("--engine is for KV in GPU memory, but here is " + where);
  return {.text = std::move(where)};
}

}  // namespace demo
