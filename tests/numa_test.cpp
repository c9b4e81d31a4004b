#include <b10/staging/numa.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <b10/staging/mapping.hpp>

#include "support/catch.hpp"
#include "support/node_of.hpp"

using namespace b10;

namespace {

/// A folder like /sys/bus/pci/devices, with one device in it.
struct PciDevices {
  explicit PciDevices(std::string const& numa_node) {
    std::string pattern = (std::filesystem::temp_directory_path() / "b10-pci-XXXXXX").string();
    path = std::string(mkdtemp(pattern.data())) + "/";
    std::filesystem::create_directory(path + "0000:1b:00.0");
    std::ofstream(path + "0000:1b:00.0/numa_node") << numa_node;
  }
  PciDevices(PciDevices const&) = delete;
  PciDevices& operator=(PciDevices const&) = delete;
  ~PciDevices() { std::filesystem::remove_all(path); }
  std::string path{};
};

}  // namespace

TEST_CASE("a PCI device's NUMA node is what the system says, or none", "[staging]") {
  CHECK(staging::numa_node_of_pci("0000:1b:00.0", PciDevices("1\n").path) == 1);
  CHECK(staging::numa_node_of_pci("0000:1b:00.0", PciDevices("-1\n").path) == -1);
  CHECK(staging::numa_node_of_pci("0000:1b:00.0", PciDevices("-7\n").path) == -1);
  CHECK(staging::numa_node_of_pci("0000:1b:00.0", PciDevices("?\n").path) == -1);
  CHECK(staging::numa_node_of_pci("0000:1c:00.0", PciDevices("1\n").path) == -1);
}

TEST_CASE("memory that prefers a node comes from it", "[staging]") {
  staging::Mapping memory(std::size_t{1} << 20);
  CHECK_FALSE(staging::prefer_node(memory.data(), memory.size(), -1));
  CHECK_FALSE(staging::prefer_node(memory.data(), memory.size(), 1023));
  CHECK_FALSE(staging::prefer_node(memory.data(), memory.size(), 1024));
  bool const allowed = staging::prefer_node(memory.data(), memory.size(), 0);
  memory.touch();
  if (allowed) CHECK(node_of(memory.data() + memory.size() - 1) == 0);
}
