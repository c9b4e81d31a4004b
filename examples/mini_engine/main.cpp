// A miniature of an engine with prefill and decode apart: what B10's session layer is for, at work.
// See --help.
#include <cstdio>
#include <exception>
#include <span>

#include "options.hpp"
#include "run.hpp"

int main(int argc, char** argv) {
  bool prefill = false;
  try {
    auto const options = mini::parse(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
    prefill = options.prefill;
    if (options.help) {
      mini::print_help();
      return 0;
    }
    auto const run = options.gpu ? mini::run_gpu : mini::run_host;
    return run(options, {argv, argv + argc});
  } catch (std::exception const& e) {
    if (prefill)
      std::fprintf(stderr, "prefill: %s\n", e.what());
    else
      std::printf("mini_engine: FAILED: %s\n", e.what());
    return 1;
  }
}
