// One process, whatever it is composed of. Each composition has its own file, so that they compile
// side by side.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "decode.hpp"
#include "options.hpp"
#include "prefill.hpp"
#include "tally.hpp"

namespace mini {

/// `program`: how to start it again. Returns the exit status; throws std::runtime_error.
[[nodiscard]] int run_host(Options const& options, std::vector<std::string> program);
[[nodiscard]] int run_gpu(Options const& options, std::vector<std::string> program);

template <class Composition>
[[nodiscard]] int run_as(Options const& options, std::vector<std::string> program) {
  if (options.prefill) {
    Prefill<Composition>(options).run();
    return 0;
  }
  auto const tally = Decode<Composition>(options, std::move(program)).run();
  print(tally);
  if (!options.timeline.empty()) tally.timeline.write(options.timeline);
  auto const wrong = tally.verdict();
  if (!wrong.empty()) {
    std::printf("mini_engine: FAILED: %s\n", wrong.c_str());
    return 1;
  }
  std::printf("mini_engine: OK\n");
  return 0;
}

}  // namespace mini
