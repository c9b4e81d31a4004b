// One receiver, several senders that are killed and stopped at random, real UCX. The naive policy
// set and the reference side by side: what was reported as landed although it was wrong, what wrote
// into memory after its transfer had failed, and how late failures were reported.
// Exit status 0 only if the reference delivered nothing wrong.

#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../report.hpp"
#include "naive.hpp"
#include "plane.hpp"
#include "reference.hpp"

namespace {

/// Set in a process that shall do what transport::Ucx never does: send large messages eagerly.
bool eager_always = false;

}  // namespace

/// Stands before UCX's own, for this program only.
extern "C" ucs_status_t ucp_config_modify(ucp_config_t* config, char const* name,
                                          char const* value) {
  using Modify = ucs_status_t (*)(ucp_config_t*, char const*, char const*);
  static auto const real = reinterpret_cast<Modify>(dlsym(RTLD_NEXT, "ucp_config_modify"));
  bool const eager = eager_always && std::strcmp(name, "RNDV_THRESH") == 0;
  return real(config, name, eager ? "inf" : value);
}

namespace b10::bench {

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

namespace {

using transport::ucx::Wire;

struct Arguments {
  Duration run_time = seconds(20);
  std::uint64_t seed = 7;
  std::string out{};
  std::vector<Wire> wires{Wire::tcp, Wire::shared_memory};
};

struct Case {
  Wire wire;
  bool naive;
  bool eager;
  [[nodiscard]] std::string name() const {
    return std::string(to_string(wire)) + " | " + (naive ? "naive" : "reference") + " | " +
           (eager ? "eager" : "rendezvous");
  }
};

struct Faults {
  unsigned kills = 0;
  unsigned stops = 0;
  bool receiver_ended_well = false;
};

pid_t start(std::function<void()> const& body) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    body();
  } catch (std::exception const& e) {
    std::fprintf(stderr, "soak: %s\n", e.what());
    _exit(1);
  }
  _exit(0);
}

/// Waits for a child of ours; false if it is not over by then.
bool ended(pid_t child, Duration limit, int& status) {
  auto const until = steady_now() + limit;
  while (waitpid(child, &status, WNOHANG) != child) {
    if (steady_now() > until) return false;
    usleep(1000);
  }
  return true;
}

/// A sender that is killed, stopped and resumed at random, and replaced when it has gone.
class Victim {
 public:
  Victim(Slot& slot, std::function<void(std::uint64_t)> body)
      : slot_(slot), body_(std::move(body)) {}
  Victim(Victim const&) = delete;
  Victim& operator=(Victim const&) = delete;
  ~Victim() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    int status = 0;
    (void)ended(process_, seconds(5), status);
  }

  void tend() {
    int status = 0;
    if (process_ > 0 && waitpid(process_, &status, WNOHANG) == process_) process_ = 0;
    if (process_ == 0) {
      resume_at_ = {};
      process_ = start([&] { body_(static_cast<std::uint64_t>(getpid())); });
    }
    if (resume_at_ != Instant{} && steady_now() > resume_at_) {
      kill(process_, SIGCONT);
      resume_at_ = {};
    }
  }
  [[nodiscard]] bool stopped() const { return resume_at_ != Instant{}; }
  void kill_now() { kill(process_, SIGKILL); }
  void stop_for(Duration time) {
    slot_.stopped_at = static_cast<std::uint64_t>(steady_now().ns);
    kill(process_, SIGSTOP);
    resume_at_ = steady_now() + time;
  }

 private:
  Slot& slot_;
  std::function<void(std::uint64_t)> body_;
  pid_t process_ = 0;
  Instant resume_at_{};
};

Faults run(Case const& c, Plane& plane, Arguments const& a) {
  Faults faults;
  auto const tls = std::string(to_string(c.wire));
  pid_t const receiver = start([&] {
    eager_always = c.eager;
    if (c.naive)
      naive::receiver(plane, tls, a.run_time);
    else
      reference_receiver(plane, c.wire, a.run_time);
  });
  for (auto const until = steady_now() + seconds(10); !plane.ready && steady_now() < until;)
    usleep(1000);
  {
    std::vector<std::unique_ptr<Victim>> victims;
    for (std::size_t i = 0; i < senders; ++i) {
      victims.push_back(std::make_unique<Victim>(plane.slots[i], [&, i](std::uint64_t incarnation) {
        eager_always = c.eager;
        if (c.naive)
          naive::sender(plane, tls, i, incarnation);
        else
          reference_sender(plane, c.wire, i);
      }));
    }
    std::mt19937_64 random(a.seed);
    auto const end = steady_now() + a.run_time;
    auto next = steady_now() + milliseconds(500);
    while (plane.ready && steady_now() < end) {
      for (auto& v : victims) v->tend();
      if (steady_now() > next) {
        auto& victim = *victims[random() % senders];
        if (!victim.stopped()) {
          if (random() % 2 == 0) {
            victim.kill_now();
            ++faults.kills;
          } else {
            victim.stop_for(milliseconds(200 + static_cast<std::int64_t>(random() % 1500)));
            ++faults.stops;
          }
        }
        next = steady_now() + milliseconds(50 + static_cast<std::int64_t>(random() % 250));
      }
      usleep(1000);
    }
    plane.stop = true;
  }
  int status = 0;
  if (ended(receiver, seconds(15), status)) {
    faults.receiver_ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  } else {
    kill(receiver, SIGKILL);
    (void)ended(receiver, seconds(5), status);
  }
  return faults;
}

std::string row(Case const& c, Faults const& f, Counts const& n) {
  char text[512];
  std::snprintf(
      text, sizeof text,
      "| %s | %u + %u | %lu | %lu | **%lu** | %lu | %lu | %lu of %lu | %.1f | %.3f | %.0f -> %.0f "
      "| %s |",
      c.name().c_str(), f.kills, f.stops, n.landed.load(), n.claimed.load(), n.corrupt.load(),
      n.failed.load(), n.generations.load(), n.late_views.load(), n.quarantined.load(),
      static_cast<double>(n.late_bytes) * 1e-6, static_cast<double>(n.overrun_ns) * 1e-9,
      static_cast<double>(n.memory_early) / 1048576, static_cast<double>(n.memory_end) / 1048576,
      f.receiver_ended_well ? "in order" : "badly");
  return text;
}

std::string json(Case const& c, Faults const& f, Counts const& n) {
  char text[768];
  std::snprintf(
      text, sizeof text,
      "{\"wire\": \"%s\", \"policies\": \"%s\", \"messages\": \"%s\", \"kills\": %u, \"stops\": "
      "%u, "
      "\"landed\": %lu, \"claimed\": %lu, \"corrupt\": %lu, \"failed\": %lu, \"generations\": %lu, "
      "\"views_quarantined\": %lu, \"views_written_late\": %lu, \"late_bytes\": %lu, "
      "\"overrun_s\": %.4f, \"unproven\": %lu, \"memory_early\": %lu, \"memory_end\": %lu, "
      "\"ended\": %s}",
      to_string(c.wire), c.naive ? "naive" : "reference", c.eager ? "eager" : "rendezvous", f.kills,
      f.stops, n.landed.load(), n.claimed.load(), n.corrupt.load(), n.failed.load(),
      n.generations.load(), n.quarantined.load(), n.late_views.load(), n.late_bytes.load(),
      static_cast<double>(n.overrun_ns) * 1e-9, n.unproven.load(), n.memory_early.load(),
      n.memory_end.load(), f.receiver_ended_well ? "true" : "false");
  return text;
}

constexpr char const* head =
    "| wire | policies | large messages | kills + stops | landed | believed by senders | landed "
    "WRONG | "
    "failed, reported | generations | quarantined views written late | late MB | worst overrun s | "
    "receiver MiB | ended |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string_view const key = argv[i];
    std::string const value = i + 1 < argc ? argv[++i] : "";
    if (key == "--seconds") {
      a.run_time = seconds(std::atol(value.c_str()));
    } else if (key == "--seed") {
      a.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (key == "--out") {
      a.out = value;
    } else if (key == "--wire") {
      a.wires = {value == "tcp" ? Wire::tcp : Wire::shared_memory};
    } else {
      std::fputs("soak [--seconds N] [--seed N] [--wire tcp|shared_memory] [--out DIR]\n", stderr);
      std::exit(2);
    }
  }
  return a;
}

}  // namespace
}  // namespace b10::bench

int main(int argc, char** argv) {
  using namespace b10::bench;
  auto const a = parse(argc, argv);
  // UCX warns of every buffer that a killed peer leaves behind, on stdout, and reads its log level
  // when it is loaded.
  if (!std::getenv("UCX_LOG_LEVEL")) {
    setenv("UCX_LOG_LEVEL", "error", 1);
    execv("/proc/self/exe", argv);
  }
  std::string table = std::string(head) + "\n";
  std::vector<std::string> rows;
  std::puts(head);
  bool good = true;
  for (auto const wire : a.wires) {
    for (Case const c :
         {Case{wire, true, true}, Case{wire, false, false}, Case{wire, false, true}}) {
      Plane& plane = make_plane();
      auto const faults = run(c, plane, a);
      auto const line = row(c, faults, plane.counts);
      std::puts(line.c_str());
      std::fflush(stdout);
      table += line + "\n";
      rows.push_back(json(c, faults, plane.counts));
      // A receiver that never landed anything has proven nothing.
      if (!c.naive) {
        good &= plane.counts.corrupt == 0 && plane.counts.landed > 0 && faults.receiver_ended_well;
      }
    }
  }
  if (!a.out.empty()) {
    Provenance from;
    for (int i = 0; i < argc; ++i) from.command += std::string(i ? " " : "") + argv[i];
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    from.ucx = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
    from.lanes = "tcp/lo, posix/memory";
    good = write_results(a.out, "soak", from, rows, table) && good;
  }
  return good ? 0 : 1;
}
