// Which combination of policies is fast, and what it costs: every valid combination moves the
// workloads of real models, each in turn with the default, every byte checked. Both ranks are in
// this process, a thread each, so that only the composition differs from row to row.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <b10/steady_clock.hpp>

#ifdef B10_CONFIGURATIONS_UCX
#include <ucp/api/ucp.h>
#endif
#ifdef B10_CONFIGURATIONS_GPU
#include "../gpu/gpu_devices.hpp"
#endif
#include "../report.hpp"
#include "configuration.hpp"
#include "measure.hpp"
#include "pools.hpp"

namespace {

using namespace b10;
using namespace b10::bench;

constexpr char const* usage =
    "configurations [--gpu] [--carrier loopback|tcp|posix]... [--workload NAME]... [--only "
    "TEXT]...\n"
    "               [--mib N] [--repeats N] [--budget SECONDS] [--tiny] [--list] [--out DIR]\n"
    "\n"
    "  --gpu       KV on GPU 0, and of the receiver on GPU 1 if there is one; else in host memory\n"
    "  --only      configurations whose name has this text; the default is always measured\n"
    "  --mib       a transfer is cut down to about that many MiB (16; with --gpu 256)\n"
    "  --repeats   of a transfer; of a single block 40 times as many (9)\n"
    "  --budget    no further configuration is started after so many seconds; what was left out\n"
    "              is said\n"
    "  --tiny      everything once with as little as there is: does it run, are the bytes right\n"
    "  --list      the configurations and their C++ types, and nothing is run\n"
    "  --out       writes configurations-cpu (or -gpu) .json and .md into DIR\n"
    "\n"
    "Without a GPU --gpu says so and exits with 0.\n";

struct Arguments {
  bool gpu = false;
  bool tiny = false;
  bool list = false;
  std::vector<std::string> carriers{};
  std::vector<std::string> loads{};
  std::vector<std::string> only{};
  std::uint64_t mib = 0;
  std::size_t repeats = 9;
  double budget_s = 0;
  std::string out{};
};

[[noreturn]] void refuse(std::string const& what) {
  std::fprintf(stderr, "configurations: %s\n%s", what.c_str(), usage);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const key = argv[i];
    auto const value = [&]() -> std::string {
      if (i + 1 == argc) refuse(key + " takes a value");
      return argv[++i];
    };
    auto const number = [&] {
      auto const n = std::strtoull(value().c_str(), nullptr, 10);
      if (n == 0) refuse(key + " takes a number of 1 or more");
      return n;
    };
    if (key == "--gpu")
      a.gpu = true;
    else if (key == "--tiny")
      a.tiny = true;
    else if (key == "--list")
      a.list = true;
    else if (key == "--carrier")
      a.carriers.push_back(value());
    else if (key == "--workload")
      a.loads.push_back(value());
    else if (key == "--only")
      a.only.push_back(value());
    else if (key == "--mib")
      a.mib = number();
    else if (key == "--repeats")
      a.repeats = number();
    else if (key == "--budget")
      a.budget_s = static_cast<double>(number());
    else if (key == "--out")
      a.out = value();
    else if (key == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else
      refuse("what is " + key + "?");
  }
  if (a.mib == 0) a.mib = a.gpu ? 256 : 16;
  if (a.tiny) a.mib = a.repeats = 1;
  return a;
}

Catalog make_catalog(Arguments const& a) {
  Catalog all;
  if (!a.gpu) {
    add_loopback_shared_pipelined(all);
    add_loopback_host_pipelined(all);
    add_loopback_shared_chunked(all);
    add_loopback_host_chunked(all);
    add_loopback_shared_whole(all);
    add_loopback_host_whole(all);
    add_loopback_sizes(all);
#ifdef B10_CONFIGURATIONS_UCX
    add_ucx(all, Carrier::tcp);
    add_ucx(all, Carrier::posix);
#endif
  }
#ifdef B10_CONFIGURATIONS_GPU
  if (a.gpu) add_gpu(all);
#endif
  auto const wanted = [&](std::vector<std::string> const& texts, std::string const& name) {
    bool any = texts.empty();
    for (auto const& t : texts) any = any || name.find(t) != name.npos;
    return any;
  };
  std::erase_if(all, [&](Configuration const& c) {
    auto const carrier = carrier_names[static_cast<std::size_t>(c.carrier)];
    return !wanted(a.carriers, std::string(carrier)) ||
           (!c.is_default && !wanted(a.only, c.name()));
  });
  if (all.empty()) refuse("there is no such configuration in this build");
  return all;
}

/// The same shape with less of it: fewer blocks, then fewer layers; smaller blocks only where one
/// of them is more than twice what is allowed.
Workload reduced(Workload w, std::uint64_t bytes_max) {
  for (int round = 0; w.bytes() > bytes_max && round < 24; ++round) {
    for (Group& g : w.groups) {
      if (w.bytes() <= bytes_max) break;
      if (g.blocks > 1 && (g.blocks > 8 || g.regions == 1))
        g.blocks /= 2;
      else if (g.regions > 1)
        g.regions /= 2;
      else if (g.bytes > 2 * bytes_max)
        g.bytes /= 2;
    }
  }
  return w;
}

std::vector<Load> make_loads(Arguments const& a) {
  std::vector<Load> all;
  for (Workload const& w : workloads()) all.push_back({reduced(w, a.mib << 20), a.repeats});
  all.push_back({{"one block", {{1, 1, 65'536}}}, a.tiny ? 1 : 40 * a.repeats});
  std::erase_if(all, [&](Load const& l) {
    bool any = a.loads.empty();
    for (auto const& name : a.loads) any = any || name == l.workload.name;
    return !any;
  });
  if (all.empty()) refuse("there is no such workload");
  return all;
}

std::string format(char const* pattern, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string describe_axes(Configuration const& c) {
  std::string text;
  for (std::size_t i = 0; i < axis_count; ++i)
    text += quoted(axis_names[i]) + ": " + quoted(c.axes[i]) + ", ";
  return text + "\"default\": " + (c.is_default ? "true" : "false");
}

std::string describe_type(Configuration const& c) {
  return "{" + describe_axes(c) + ", \"type\": " + quoted(c.type) + "}";
}

/// What a row of JSON calls it; guarantees are named where they do not hold.
std::string describe(std::size_t id, Configuration const& c, std::uint64_t staging) {
  auto text = format("{\"kind\": \"configuration\", \"id\": %zu, \"carrier\": ", id) +
              quoted(carrier_names[static_cast<std::size_t>(c.carrier)]) + ", " + describe_axes(c) +
              format(", \"never_silent\": %s, \"staging_bytes\": %llu, \"lacks\": [",
                     c.never_silent ? "true" : "false", static_cast<unsigned long long>(staging));
  bool first = true;
  for (Guarantee const& g : c.contract) {
    if (g.holds) continue;
    text += (first ? "" : ", ") + quoted(g.name);
    first = false;
  }
  return text + "]}";
}

std::string describe(Load const& load) {
  auto const& w = load.workload;
  return format(
      "{\"kind\": \"workload\", \"workload\": \"%s\", \"bytes\": %llu, \"spans\": %zu, "
      "\"repeats\": %zu}",
      w.name.c_str(), static_cast<unsigned long long>(w.bytes()), w.spans(), load.repeats);
}

std::string describe(std::size_t id, Load const& load, Measured const& m) {
  auto const bytes = static_cast<double>(load.workload.bytes());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < m.own.size(); ++i) ratios.push_back(m.of_default[i] / m.own[i]);
  return format(
      "{\"kind\": \"run\", \"id\": %zu, \"workload\": \"%s\", \"gb_s\": %.4f, \"p50_us\": %.1f, "
      "\"p99_us\": %.1f, \"to_default\": %.3f, \"to_default_q1\": %.3f, \"to_default_q3\": %.3f}",
      id, load.workload.name.c_str(), bytes / quantile(m.own, 0.5) * 1e-9,
      quantile(m.own, 0.5) * 1e6, quantile(m.own, 0.99) * 1e6, quantile(ratios, 0.5),
      quantile(ratios, 0.25), quantile(ratios, 0.75));
}

class Session {
 public:
  Session(Arguments const& a, PairOptions where) : args_(a), where_(where) {}

  /// False if one of them did not do what it should; the others are run all the same.
  bool run(Catalog const& all, std::vector<Load> const& loads) {
    auto const start = steady_now();
    for (Load const& l : loads) {
      pools_.push_back(make_pools(l.workload));
      rows_.push_back(describe(l));
    }
    bool good = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool const late = args_.budget_s > 0 && (steady_now() - start).seconds() > args_.budget_s;
      if (late && !all[i].is_default) {
        ++left_out_;
        continue;
      }
      try {
        run_one(i, all[i], loads);
      } catch (std::exception const& e) {
        std::printf("FAILED %s: %s\n", all[i].name().c_str(), e.what());
        good = false;
      }
      std::fflush(stdout);
    }
    return good;
  }
  [[nodiscard]] std::vector<std::string> const& rows() const { return rows_; }
  [[nodiscard]] std::string const& table() const { return table_; }
  [[nodiscard]] std::string const& lanes() const { return lanes_; }
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] std::unique_ptr<Pools> make_pools(Workload const& w) const {
#ifdef B10_CONFIGURATIONS_GPU
    if (args_.gpu) return make_gpu_pools(w, where_.sender_gpu, where_.receiver_gpu);
#endif
    return std::make_unique<HostPools>(w);
  }

  void run_one(std::size_t id, Configuration const& c, std::vector<Load> const& loads) {
    where_.carrier = c.carrier;
    auto mover = std::make_unique<Mover>(c, where_);
    for (auto const& pools : pools_) mover->may_write(*pools);
    Mover& own = *mover;
    if (c.is_default) {
      default_ = std::move(mover);
      default_carrier_ = c.carrier;
      lanes_ += own.pair().explain();
    }
    if (!default_ || default_carrier_ != c.carrier)
      throw std::runtime_error("the default one has failed: there is nothing to compare with");
    std::vector<std::string> runs;
    std::string line;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      auto const m =
          measure(own, c.is_default ? nullptr : default_.get(), *pools_[i], loads[i].repeats);
      runs.push_back(describe(id, loads[i], m));
      line += format(" %.2f |",
                     static_cast<double>(loads[i].workload.bytes()) / quantile(m.own, 0.5) * 1e-9);
    }
    rows_.push_back(describe(id, c, own.pair().staging_bytes()));
    rows_.insert(rows_.end(), runs.begin(), runs.end());
    line = "| " + c.name() + (c.is_default ? " **(default)**" : "") + " | " +
           std::string(carrier_names[static_cast<std::size_t>(c.carrier)]) + " |" + line;
    std::printf("%s\n", line.c_str());
    table_ += line + "\n";
  }

  Arguments const& args_;
  PairOptions where_;
  std::vector<std::unique_ptr<Pools>> pools_{};  // before the nodes that may write them
  std::unique_ptr<Mover> default_{};             // of the carrier at hand
  Carrier default_carrier_{};
  std::vector<std::string> rows_{};
  std::string table_{};
  std::string lanes_{};
  std::size_t left_out_ = 0;
};

std::string head_of(std::vector<Load> const& loads) {
  std::string head = "| GB/s | over |";
  std::string rule = "|---|---|";
  for (Load const& l : loads) {
    head += " " + l.workload.name +
            format(" (%.1f MiB)", static_cast<double>(l.workload.bytes()) / 1048576) + " |";
    rule += "---|";
  }
  return head + "\n" + rule + "\n";
}

bool save(Arguments const& a, Session const& s, std::string const& head, std::string const& gpus,
          int argc, char** argv) {
  Provenance from;
  for (int i = 0; i < argc; ++i) from.command += std::string(i ? " " : "") + argv[i];
  from.lanes = s.lanes() + gpus;
#ifdef B10_CONFIGURATIONS_UCX
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  from.ucx = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
#endif
  return write_results(a.out, a.gpu ? "configurations-gpu" : "configurations-cpu", from, s.rows(),
                       head + s.table());
}

/// False: there is none, and it was said.
bool find_gpus(PairOptions& where, std::string& text) {
#ifdef B10_CONFIGURATIONS_GPU
  auto const devices = find_devices();
  text = devices.text;
  where.sender_gpu = 0;
  where.receiver_gpu = devices.count > 1 ? 1 : 0;
  if (devices.count > 0) return true;
#else
  text = "this build has no b10::cuda";
  (void)where;
#endif
  std::printf("skipped: no CUDA device (%s)\n", text.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  auto const args = parse(argc, argv);
  PairOptions where;
  std::string gpus;
  if (args.gpu && !args.list && !find_gpus(where, gpus)) return 0;
  auto const all = make_catalog(args);
  if (args.list) {
    for (Configuration const& c : all) std::printf("%s\n", describe_type(c).c_str());
    return 0;
  }
  auto const loads = make_loads(args);
  auto const head = head_of(loads);
  std::printf("%zu configurations\n%s", all.size(), head.c_str());
  Session session(args, where);
  bool good = session.run(all, loads);
  if (!args.out.empty()) good = save(args, session, head, gpus, argc, argv) && good;
  std::printf("%s: %zu configurations, %zu left out\n", good ? "All bytes right" : "FAILED",
              all.size(), session.left_out());
  return good ? 0 : 1;
}
