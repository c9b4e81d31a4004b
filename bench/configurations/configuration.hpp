// What the configuration benchmark runs: compositions behind an interface, so that the program that
// measures them is compiled once, and the list of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/contract.hpp>
#include <b10/grant.hpp>
#include <b10/transfer.hpp>
#include <b10/types.hpp>

namespace b10::bench {

/// What carries control, and payloads where staging is not written by peers.
enum class Carrier : std::uint8_t { loopback, tcp, posix };
inline constexpr std::string_view carrier_names[] = {"loopback", "tcp", "posix"};

struct PairOptions {
  Carrier carrier = Carrier::loopback;
  int sender_gpu = -1;  ///< -1: KV is in host memory
  int receiver_gpu = -1;
};

/// Two connected transceivers of one composition in this process, each with its thread.
class Pair {
 public:
  Pair() = default;
  Pair(Pair const&) = delete;
  Pair& operator=(Pair const&) = delete;
  virtual ~Pair() = default;

  virtual void register_memory(LocalSpan destination) = 0;
  [[nodiscard]] virtual Grant grant(RequestId request, std::span<LocalSpan const> spans) = 0;
  [[nodiscard]] virtual Transfer write(RequestId request, std::span<LocalSpan const> sources,
                                       std::span<RemoteSpan const> destinations) = 0;
  /// Of the receiver [bytes].
  [[nodiscard]] virtual std::uint64_t staging_bytes() const = 0;
  [[nodiscard]] virtual std::string explain() = 0;
};

/// Axes of a configuration, in this order.
inline constexpr std::string_view axis_names[] = {"staging",    "slicing",    "copy",     "tag",
                                                  "completion", "quarantine", "transport"};
inline constexpr std::size_t axis_count = std::size(axis_names);

struct Configuration {
  std::string type{};                          ///< of its b10::PolicySet, as C++ writes it
  std::array<std::string, axis_count> axes{};  ///< "Pipelined<262144, 4>"
  std::array<Guarantee, 7> contract{};
  bool never_silent = false;
  bool is_default = false;  ///< the reference of its kind of memory
  Carrier carrier{};
  bool on_gpu = false;
  /// Throws Error, or std::runtime_error, saying why it cannot be had here.
  std::unique_ptr<Pair> (*open)(PairOptions const&) = nullptr;

  [[nodiscard]] std::string name() const {
    std::string text;
    for (auto const& axis : axes) text += (text.empty() ? "" : ", ") + axis;
    return text;
  }
};

using Catalog = std::vector<Configuration>;

/// Parts of the list. Each is a source file of its own, because each composition takes seconds to
/// compile: all of staging x slicing x tag x completion x quarantine over Loopback, and slice sizes
/// and depths; chosen ones over UCX; chosen ones for KV on a GPU.
void add_loopback_host_whole(Catalog& to);
void add_loopback_host_chunked(Catalog& to);
void add_loopback_host_pipelined(Catalog& to);
void add_loopback_shared_whole(Catalog& to);
void add_loopback_shared_chunked(Catalog& to);
void add_loopback_shared_pipelined(Catalog& to);
void add_loopback_sizes(Catalog& to);
void add_ucx(Catalog& to, Carrier wire);
void add_gpu(Catalog& to);

}  // namespace b10::bench
