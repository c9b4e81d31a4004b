#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

namespace b10::staging {

/// NUMA node of a PCI device, by its bus address in lower case ("0000:1b:00.0"). -1 when the system
/// does not say: one node only, a virtual machine, no such device.
[[nodiscard]] inline int numa_node_of_pci(std::string const& bus_id,
                                          std::string const& devices = "/sys/bus/pci/devices/") {
  auto const path = devices + bus_id + "/numa_node";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  int node = -1;
  if (!file || std::fscanf(file.get(), "%d", &node) != 1 || node < 0) return -1;
  return node;
}

/// Pages of this memory that are touched from now on come from `node` while it has any. By the
/// system call itself: a library for one call would be one more dependency. False if the system
/// refuses (no such node, or a container that forbids the call): the memory is then wherever the
/// thread that touches it runs. `memory` is page-aligned.
inline bool prefer_node(std::byte* memory, std::size_t bytes, int node) noexcept {
  constexpr std::size_t mask_bits = 1024;
  constexpr std::size_t word_bits = sizeof(unsigned long) * CHAR_BIT;
  auto const bit = static_cast<std::size_t>(node);
  if (node < 0 || bit >= mask_bits) return false;
  unsigned long mask[mask_bits / word_bits] = {};
  mask[bit / word_bits] |= 1ul << (bit % word_bits);
  // The kernel reads one bit less than it is told.
  return syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, mask, mask_bits + 1, 0u) == 0;
}

}  // namespace b10::staging
