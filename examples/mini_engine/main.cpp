// A miniature of an engine with prefill and decode apart: what B10's session layer is for, at work.
// See --help.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "decode.hpp"
#include "options.hpp"
#include "prefill.hpp"
#include "tally.hpp"

namespace mini {
namespace {

int run(Options const& options, std::vector<std::string> program) {
  auto const tally = Decode<HostComposition>(options, std::move(program)).run();
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

}  // namespace
}  // namespace mini

int main(int argc, char** argv) {
  bool prefill = false;
  try {
    auto const options = mini::parse(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
    prefill = options.prefill;
    if (options.help) {
      mini::print_help();
      return 0;
    }
    if (!prefill) return mini::run(options, {argv, argv + argc});
    mini::Prefill<mini::HostComposition>(options).run();
    return 0;
  } catch (std::exception const& e) {
    if (prefill)
      std::fprintf(stderr, "prefill: %s\n", e.what());
    else
      std::printf("mini_engine: FAILED: %s\n", e.what());
    return 1;
  }
}
