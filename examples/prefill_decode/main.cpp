// Two processes, paged KV pools of a real model, every byte proven landed. See --help.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "common/memory.hpp"
#include "common/trace.hpp"
#include "decode.hpp"
#include "options.hpp"
#include "places.hpp"
#include "prefill.hpp"

namespace demo {
namespace {

std::vector<Request> uniform(std::uint64_t first, std::uint64_t count, std::uint64_t tokens) {
  std::vector<Request> out;
  for (std::uint64_t i = 0; i < count; ++i) out.push_back({first + i, tokens});
  return out;
}

std::vector<Phase> phases(Options const& o) {
  if (!o.trace.empty()) return {{read_trace(o.trace, o.requests, o.tokens), o.concurrency}};
  std::vector<Phase> out{{uniform(1, o.requests, o.tokens), o.concurrency}};
  if (o.stress) out.push_back({uniform(o.requests + 1, 64, 8 * o.tokens), 64});
  return out;
}

/// Memory of both processes after the first requests and at the end.
void check_memory(Decode const& decode) {
  if (decode.memory_before().empty()) return;
  char const* const names[] = {"decode", "prefill"};
  std::string grown;
  for (std::size_t i = 0; i < 2; ++i) {
    auto const before = decode.memory_before()[i];
    auto const after = decode.memory_after()[i];
    std::printf("  %-14s %s of its own after the first requests, %s at the end (at most %s more)\n",
                names[i], amount(before).c_str(), amount(after).c_str(),
                amount(growth_max).c_str());
    if (after > before + growth_max) grown = names[i];
  }
  if (!grown.empty()) throw std::runtime_error("the memory of " + grown + " has grown");
}

void run(Options const& options, Places places, std::vector<std::string> program) {
  program.insert(program.end(), {"--memory", std::string(to_string(options.memory))});
  Decode decode(options, std::move(places), phases(options), std::move(program));
  auto const results = decode.run();
  print_table(results);
  auto const& v = decode.verdict();
  std::printf(
      "  %-14s %s exact, %s around them untouched, %s of failed requests may hold anything\n",
      "pool", amount(v.landed_bytes).c_str(), amount(v.untouched_bytes).c_str(),
      amount(v.undefined_bytes).c_str());
  check_memory(decode);
  if (options.explain) std::printf("\n%s\n", decode.explain().c_str());
  std::printf("demo: OK  %llu bytes verified, %.2f x raw UCX\n",
              static_cast<unsigned long long>(decode.verified_bytes()), results.ratio());
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  bool prefill = false;
  try {
    auto options = demo::parse(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
    prefill = options.prefill;
    if (options.help) {
      demo::print_help();
      return 0;
    }
    auto places = demo::choose_places(options);
    if (prefill)
      demo::Prefill(options, places.prefill).run();
    else
      demo::run(options, std::move(places), {argv, argv + argc});
    return 0;
  } catch (std::exception const& e) {
    if (prefill)
      std::fprintf(stderr, "prefill: %s\n", e.what());
    else
      std::printf("demo: FAILED: %s\n", e.what());
    return 1;
  }
}
