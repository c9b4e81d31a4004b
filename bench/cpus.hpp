// Which CPUs the two processes run on. A process has two threads that want to run, its own and the
// lane's, and CUDA has some; one CPU, as the host benches have it, would measure their quarrel.
#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace b10::bench {

using Cpus = std::vector<unsigned>;

[[nodiscard]] inline Cpus range(unsigned first, unsigned last) {
  Cpus cpus;
  for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

/// The first eight CPUs that this process may use, four each: neighbours, so of one NUMA node.
/// Fewer than eight: none.
[[nodiscard]] inline std::array<Cpus, 2> default_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  Cpus found;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && found.size() < 8; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) found.push_back(cpu);
  if (found.size() < 8) return {};
  return {Cpus(found.begin(), found.begin() + 4), Cpus(found.begin() + 4, found.end())};
}

/// Threads made later inherit it. Nothing if there are none.
inline void pin(Cpus const& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned const cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // what is not allowed here stays as it is
}

[[nodiscard]] inline std::string to_string(Cpus const& cpus) {
  if (cpus.empty()) return "one";
  std::string text;
  for (unsigned const cpu : cpus) text += (text.empty() ? "" : " ") + std::to_string(cpu);
  return text;
}

}  // namespace b10::bench
