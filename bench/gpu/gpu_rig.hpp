// One transceiver of one copy engine on one GPU behind an interface, so that engines are compared
// in one program, and that engine by itself.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/messages.hpp>
#include <b10/core/plan.hpp>
#include <b10/transceiver.hpp>

namespace b10::bench {

enum class EngineKind : std::uint8_t { staged, digested, direct, copy_engine_batch };
[[nodiscard]] constexpr char const* to_string(EngineKind kind) {
  return kind == EngineKind::staged     ? "Staged"
         : kind == EngineKind::digested ? "Staged with digests"
         : kind == EngineKind::direct   ? "Direct"
                                        : "CopyEngineBatch";
}

/// Where bytes wait, and so what carries payloads.
enum class StagingKind : std::uint8_t {
  pinned,  ///< pinned host memory, payloads by UCX
  shared,  ///< pinned host memory of the receiver's that the sender writes
  device,  ///< GPU memory of the receiver's that the sender writes
};
[[nodiscard]] constexpr char const* to_string(StagingKind kind) {
  return kind == StagingKind::pinned ? "pinned" : kind == StagingKind::shared ? "shared" : "device";
}

enum class Way : std::uint8_t { gather, scatter };

struct RigOptions {
  std::string name;
  int device;
  EngineKind engine;
  StagingKind staging;
  transport::ucx::Wire wire;
  Progress progress;
  unsigned depth;       ///< slices of one transfer in flight
  std::uint64_t slice;  ///< [bytes]
};

/// Pinned memory as staging::PinnedHost has it: `slots` slices, each behind room for a header.
class PinnedSlots {
 public:
  PinnedSlots(int device, std::size_t slots, std::uint64_t slice)
      : memory_({.numa = staging::Numa::near_device, .device = device}),
        stride_((wire::data_header_bytes + slice + 4095) / 4096 * 4096),
        bytes_(stride_ * slots),
        data_(memory_.allocate(bytes_)) {}
  PinnedSlots(PinnedSlots const&) = delete;
  PinnedSlots& operator=(PinnedSlots const&) = delete;
  ~PinnedSlots() { memory_.free(data_, bytes_); }
  [[nodiscard]] std::byte* slot(std::size_t i) const {
    return data_ + i * stride_ + wire::data_header_bytes;
  }

 private:
  staging::PinnedMemory memory_;
  std::size_t stride_;
  std::size_t bytes_;
  std::byte* data_;
};

class Rig {
 public:
  Rig() = default;
  Rig(Rig const&) = delete;
  Rig& operator=(Rig const&) = delete;
  virtual ~Rig() = default;

  [[nodiscard]] virtual std::string address() const = 0;
  virtual void register_memory(LocalSpan pool) = 0;
  /// Throws std::runtime_error saying why, within some seconds.
  virtual void connect(std::string const& address) = 0;
  [[nodiscard]] virtual Transfer write(RequestId request, std::span<LocalSpan const> sources,
                                       std::span<RemoteSpan const> destinations,
                                       Duration deadline) = 0;
  [[nodiscard]] virtual Grant grant(RequestId request, std::span<LocalSpan const> spans,
                                    Duration limit) = 0;
  virtual void progress() = 0;
  [[nodiscard]] virtual std::string explain() = 0;
  /// Copies every chunk between KV and hot pinned memory with `depth` copies under way, on an
  /// engine of its own; no wire. Seconds. Throws if a copy fails or does not end.
  [[nodiscard]] virtual double copy_alone(Way way, std::span<LocalSpan const> spans,
                                          std::span<core::Chunk const> chunks) = 0;
};

/// Slices and depth are set at run time: Options::buffer_bytes bounds the one,
/// Config::max_in_flight_ops the other.
using AnySlices = slicing::Pipelined<std::uint64_t{64} << 20, 64>;

template <class Staging, class Completion = completion::CopyEvent>
class RigOf : public Rig {
  using Node = Transceiver<Staging, tag::Hashed, Completion>;
  using Engine = typename Staging::CopyEngine;

 public:
  explicit RigOf(RigOptions const& o) : options_(o), node_(std::make_unique<Node>(config(o))) {}

  [[nodiscard]] std::string address() const override { return node_->address(); }
  void register_memory(LocalSpan pool) override { node_->register_memory(pool); }
  void connect(std::string const& address) override {
    auto const connecting = node_->begin_connect(address, seconds(10));
    auto const until = steady_now() + seconds(11);
    while (!connecting.done() && steady_now() < until) {
      if (options_.progress == Progress::manual)
        node_->progress();
      else
        usleep(100);
    }
    if (!connecting.peer()) throw std::runtime_error("connect: " + connecting.error());
    peer_ = *connecting.peer();
  }
  [[nodiscard]] Transfer write(RequestId request, std::span<LocalSpan const> sources,
                               std::span<RemoteSpan const> destinations,
                               Duration deadline) override {
    return node_->write(peer_, {.request = request,
                                .sources = sources,
                                .destinations = destinations,
                                .deadline = deadline});
  }
  [[nodiscard]] Grant grant(RequestId request, std::span<LocalSpan const> spans,
                            Duration limit) override {
    return node_->grant(request, spans, limit);
  }
  void progress() override { node_->progress(); }
  [[nodiscard]] std::string explain() override { return node_->explain(); }

  [[nodiscard]] double copy_alone(Way way, std::span<LocalSpan const> spans,
                                  std::span<core::Chunk const> chunks) override {
    if (!alone_) {
      alone_ = std::make_unique<Engine>(engine_options(options_), options_.slice);
      pinned_ = std::make_unique<PinnedSlots>(options_.device, options_.depth, options_.slice);
      slots_.resize(options_.depth);
    }
    std::size_t next = 0;
    std::size_t ended = 0;
    auto const start = steady_now();
    for (unsigned turn = 1; ended < chunks.size(); ++turn) {
      for (std::size_t k = 0; k < slots_.size(); ++k) {
        if (slots_[k].busy) ended += has_ended(slots_[k]);
        if (slots_[k].busy || next == chunks.size() || !alone_->has_room()) continue;
        begin(way, spans, chunks[next++], pinned_->slot(k), slots_[k]);
      }
      if (turn % 65'536 == 0 && steady_now() - start > seconds(30))
        throw std::runtime_error("copies alone have not ended within 30 s");
    }
    return (steady_now() - start).seconds();
  }

 private:
  struct Slot {
    typename Engine::Event event{};
    bool busy = false;
  };

  static typename Engine::Options engine_options(RigOptions const& o) {
    typename Engine::Options options;
    options.devices = {o.device};
    options.slots = std::max(options.slots, o.depth);
    auto const smallest = std::uint64_t{256};  // block of any workload [bytes]
    options.spans_max = std::max(options.spans_max, static_cast<std::uint32_t>(o.slice / smallest));
    return options;
  }
  static typename Node::Config config(RigOptions const& o) {
    typename Node::Config c;
    c.name = o.name;
    c.staging.buffer_bytes = o.slice;
    c.staging.buffers = 2 * o.depth;
    if constexpr (requires { c.staging.device; }) c.staging.device = o.device;
    if constexpr (requires { c.staging.pinning; }) c.staging.pinning.device = o.device;
    if constexpr (Staging::placement == Placement::device) c.staging.lives = 1;
    c.staging.copies = engine_options(o);
    c.transport.key = "a key for measuring only";
    c.transport.wire = o.wire;
    c.max_in_flight_ops = o.depth;
    c.progress = o.progress;
    return c;
  }

  void begin(Way way, std::span<LocalSpan const> spans, core::Chunk const& c, std::byte* pinned,
             Slot& slot) {
    SpanRun const run{spans.subspan(c.first, c.count), c.skip, c.bytes};
    if constexpr (wants_digests<Completion>)
      way == Way::gather ? alone_->gather_digested(run, pinned, slot.event)
                         : alone_->scatter_digested(pinned, run, slot.event);
    else
      way == Way::gather ? alone_->gather(run, pinned, slot.event)
                         : alone_->scatter(pinned, run, slot.event);
    slot.busy = true;
  }
  bool has_ended(Slot& slot) {
    auto const state = alone_->query(slot.event);
    if (state == CopyState::failed)
      throw std::runtime_error("a copy alone failed: " + alone_->why());
    slot.busy = state == CopyState::pending;
    return !slot.busy;
  }

  RigOptions options_;
  std::unique_ptr<Node> node_;
  PeerId peer_{};
  std::unique_ptr<PinnedSlots> pinned_{};  // outlives the copies into it
  std::unique_ptr<Engine> alone_{};
  std::vector<Slot> slots_{};
};

template <class Engine, class Completion = completion::CopyEvent>
[[nodiscard]] std::unique_ptr<Rig> make_rig_of(RigOptions const& o) {
  using Shared = staging::SharedHost<AnySlices, Engine, staging::CudaPinning>;
  if (o.staging == StagingKind::shared) return std::make_unique<RigOf<Shared, Completion>>(o);
  return std::make_unique<RigOf<staging::PinnedHost<AnySlices, Engine>, Completion>>(o);
}

/// The engine of device staging is copy::Peer, whatever `o.engine` says.
[[nodiscard]] inline std::unique_ptr<Rig> make_rig(RigOptions const& o) {
  if (o.staging == StagingKind::device)
    return std::make_unique<RigOf<staging::Device<AnySlices, copy::Peer>>>(o);
  switch (o.engine) {
    case EngineKind::staged:
      return make_rig_of<copy::Staged>(o);
    case EngineKind::digested:
      return make_rig_of<copy::Staged, completion::Digested>(o);
    case EngineKind::direct:
      return make_rig_of<copy::Direct>(o);
    case EngineKind::copy_engine_batch:
      return make_rig_of<copy::CopyEngineBatch>(o);
  }
  throw std::runtime_error("no such engine");
}

}  // namespace b10::bench
