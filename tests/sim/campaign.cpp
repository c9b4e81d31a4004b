// Random workloads under random faults in virtual time, K1-K8 checked in every run.
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "sim/coverage.hpp"
#include "sim/report.hpp"
#include "sim/run.hpp"

namespace {

using namespace campaign;

char const* const usage =
    "campaign [--policy b10|v1|v1-none|all] [--seeds N] [--first SEED] [--budget SECONDS]\n"
    "         [--replay SEED] [--shrink SEED] [--without I,J,...] [--jobs N] [--aim S,A] "
    "[--payload] [--brief]\n"
    "\n"
    "  --policy all   b10 and the two v1 sets with the same seeds, side by side\n"
    "  --seeds N      runs, one for each seed (default 200)\n"
    "  --first SEED   the first of them (default 1)\n"
    "  --budget S     no further run is started after S seconds\n"
    "  --replay SEED  one run: its faults, its events, and what it broke\n"
    "  --shrink SEED  leaves out faults and transfers of that run for as long as it still breaks "
    "a\n"
    "                 rule in the way that showed the fewest times, and says how to replay the "
    "rest\n"
    "  --without ...  leaves out these faults of a replay, by number\n"
    "  --jobs N       at most so many transfers in a run\n"
    "  --aim S,A      faults of kind A at step S besides, by number\n"
    "  --payload      flips bits of payloads too, which nothing but a digest could find\n"
    "  --brief        no coverage matrix\n"
    "\n"
    "After its seeds b10 goes on with runs that aim at each cell (protocol step x fault kind) that "
    "none\n"
    "of them has hit.\n"
    "\n"
    "Exit status 1: b10 broke a rule or left a cell empty, or v1 broke fewer than five kinds of "
    "silent\ncorruption.\n";

struct Options {
  std::string policy = "b10";
  std::uint64_t seeds = 200;
  std::uint64_t first = 1;
  double budget = 0;
  std::uint64_t replay = 0;
  std::uint64_t shrink = 0;
  bool brief = false;
  RunOptions run{};

  [[nodiscard]] Run policy_run() const {
    return policy == "v1" ? run_v1 : policy == "v1-none" ? run_v1_none : run_b10;
  }
};

[[noreturn]] void bad_usage() {
  std::fputs(usage, stderr);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string_view const name = argv[i];
    if (name == "--payload") {
      o.run.corrupt_payload = true;
      continue;
    }
    if (name == "--brief") {
      o.brief = true;
      continue;
    }
    if (i + 1 == argc) bad_usage();
    char const* const value = argv[++i];
    auto const number = std::strtoull(value, nullptr, 10);
    if (name == "--policy")
      o.policy = value;
    else if (name == "--seeds")
      o.seeds = number;
    else if (name == "--first")
      o.first = number;
    else if (name == "--budget")
      o.budget = std::strtod(value, nullptr);
    else if (name == "--replay")
      o.replay = number;
    else if (name == "--shrink")
      o.shrink = number;
    else if (name == "--aim") {
      char* end = nullptr;
      auto const step = std::strtoull(value, &end, 10);
      auto const action = *end == ',' ? std::strtoull(end + 1, nullptr, 10) : action_count;
      if (step >= step_count || action >= action_count) bad_usage();
      o.run.aim = Cell{static_cast<Step>(step), static_cast<Action>(action)};
    } else if (name == "--jobs")
      o.run.jobs_max = static_cast<std::uint32_t>(number);
    else if (name == "--without")
      for (char const* at = value; *at; at += *at == ',') {
        char* end = nullptr;
        auto const which = std::strtoull(at, &end, 10);
        if (end == at || which > 1000) bad_usage();
        if (o.run.without.size() <= which) o.run.without.resize(which + 1);
        o.run.without[which] = true;
        at = end;
      }
    else
      bad_usage();
  }
  bool const known = o.policy == "b10" || o.policy == "v1" || o.policy == "v1-none";
  if (!known && (o.policy != "all" || o.replay || o.shrink)) bad_usage();
  return o;
}

std::string replay_command(Options const& o, RunOptions const& run) {
  auto text = "campaign --policy " + o.policy + " --replay " + std::to_string(run.seed);
  if (run.aim)
    text += " --aim " + std::to_string(static_cast<unsigned>(run.aim->first)) + "," +
            std::to_string(static_cast<unsigned>(run.aim->second));
  if (run.jobs_max != ~0u) text += " --jobs " + std::to_string(run.jobs_max);
  if (run.corrupt_payload) text += " --payload";
  std::string list;
  for (std::size_t i = 0; i < run.without.size(); ++i)
    if (run.without[i]) list.append(list.empty() ? "" : ",").append(std::to_string(i));
  return list.empty() ? text : text + " --without " + list;
}

void print_run(RunResult const& r) {
  std::printf("%zu nodes, %u transfers, %u at once, %" PRIu64 " staging slices\n", r.setup.nodes,
              r.setup.jobs, r.setup.concurrency, r.setup.slices);
  for (auto const& f : r.setup.faults) std::printf("fault: %s\n", to_string(f).c_str());
  for (auto const& d : r.tally.details) std::printf("BROKEN %s\n", d.c_str());
}

int replay(Options const& o, Ground const& ground) {
  auto run = o.run;
  run.seed = o.replay;
  run.keep_journal = true;
  auto const r = o.policy_run()(draw_setup(run), ground);
  for (auto const& e : r.events) std::printf("%s\n", to_string(e).c_str());
  print_run(r);
  std::printf("journal %016" PRIx64 "\n", r.tally.journal);
  return r.tally.breached() > 0;
}

/// The way in which a run broke the rules that shows the fewest times.
std::size_t rarest_breach(Tally const& t) {
  std::size_t rarest = breach_count;
  for (std::size_t i = 0; i < breach_count; ++i)
    if (t.breaches[i] > 0 && (rarest == breach_count || t.breaches[i] < t.breaches[rarest]))
      rarest = i;
  return rarest;
}

/// Leaves out faults one by one, then transfers from the end, as long as the run still breaks a
/// rule in its rarest way.
int shrink(Options const& o, Ground const& ground) {
  auto run = o.run;
  run.seed = o.shrink;
  auto const first = o.policy_run()(draw_setup(run), ground);
  auto const kind = rarest_breach(first.tally);
  if (kind == breach_count) {
    std::printf("seed %" PRIu64 " breaks nothing\n", run.seed);
    return 1;
  }
  auto const breaks = [&](RunOptions const& with) {
    return o.policy_run()(draw_setup(with), ground).tally.breaches[kind] > 0;
  };
  auto const faults = first.setup.faults.size() + run.without.size();
  run.without.resize(faults);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t i = 0; i < faults; ++i) {
      if (run.without[i]) continue;
      run.without[i] = true;
      if (breaks(run))
        better = true;
      else
        run.without[i] = false;
    }
  }
  for (auto jobs = o.policy_run()(draw_setup(run), ground).setup.jobs; jobs > 1;) {
    auto fewer = run;
    fewer.jobs_max = --jobs;
    if (!breaks(fewer)) break;
    run = fewer;
  }
  print_run(o.policy_run()(draw_setup(run), ground));
  std::printf("replay: %s\n", replay_command(o, run).c_str());
  return 0;
}

/// Adds one run to the total. Says which runs of b10 break something.
void run_one(Options const& o, RunOptions const& run, Ground const& ground, Tally& total) {
  auto const r = o.policy_run()(draw_setup(run), ground);
  bool const tell = o.policy == "b10" && total.broken_runs < 20;
  total.add(r.tally);
  if (r.tally.breached() == 0 || !tell) return;
  std::printf("seed %" PRIu64 " breaks a rule; replay: %s\n", run.seed,
              replay_command(o, run).c_str());
  for (auto const& d : r.tally.details) std::printf("  %s\n", d.c_str());
  std::fflush(stdout);
}

/// Runs that aim at the cells which the others have left empty. Returns their number.
std::uint64_t fill_cells(Options const& o, Ground const& ground, Tally& total) {
  constexpr unsigned tries = 400;
  std::uint64_t runs = 0;
  auto run = o.run;
  run.seed = o.first;
  for (auto const& cell : coverage_of(total).empty) {
    run.aim = cell;
    for (unsigned i = 0; i < tries && hits(total, cell) == 0; ++i, ++run.seed, ++runs)
      run_one(o, run, ground, total);
  }
  return runs;
}

Tally run_all(Options const& o, Ground const& ground, Took& took) {
  Tally total;
  auto const start = std::chrono::steady_clock::now();
  auto const cpu_start = std::clock();
  auto const seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto run = o.run;
  for (std::uint64_t i = 0; i < o.seeds && (o.budget <= 0 || seconds() < o.budget); ++i) {
    run.seed = o.first + i;
    run_one(o, run, ground, total);
  }
  auto const seeds = total.runs;
  auto const aimed = o.policy == "b10" && !o.run.aim ? fill_cells(o, ground, total) : 0;
  took = {seconds(), static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
  std::printf("\npolicy %s, seeds %" PRIu64 " to %" PRIu64 ", and %" PRIu64
              " runs aimed at empty cells\n",
              o.policy.c_str(), o.first, o.first + seeds - 1, aimed);
  return total;
}

/// Whether b10 has done what it must.
bool passed(Options const& o, Tally const& b10) {
  return b10.breached() == 0 && (o.run.aim || coverage_of(b10).empty.empty());
}

int campaign_of(Options const& o, Ground const& ground) {
  Took took;
  auto const total = run_all(o, ground, took);
  print_report(total, took, o.brief);
  return o.policy == "b10" ? !passed(o, total) : corrupting_kinds(total) < 5;
}

int compare(Options o, Ground const& ground) {
  Tally all[3];
  char const* const policies[] = {"b10", "v1", "v1-none"};
  for (int i = 0; i < 3; ++i) {
    Took took;
    o.policy = policies[i];
    all[i] = run_all(o, ground, took);
    i == 0 ? print_report(all[i], took, o.brief) : print_head(all[i], took);
    std::fflush(stdout);
  }
  print_comparison(all);
  o.policy = "b10";
  return !passed(o, all[0]) || corrupting_kinds(all[1]) < 5 || corrupting_kinds(all[2]) < 5;
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = parse(argc, argv);
  Ground const ground;
  if (options.replay != 0) return replay(options, ground);
  if (options.shrink != 0) return shrink(options, ground);
  return options.policy == "all" ? compare(options, ground) : campaign_of(options, ground);
}
