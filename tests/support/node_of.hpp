#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

/// NUMA node of the page at `memory`, which has been touched; -1 if the system does not say.
inline int node_of(std::byte const* memory) {
  int node = -1;
  constexpr unsigned long of_address = MPOL_F_NODE | MPOL_F_ADDR;
  return syscall(SYS_get_mempolicy, &node, nullptr, 0ul, memory, of_address) == 0 ? node : -1;
}
