#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/copy/cuda/allocations.hpp>
#include <b10/copy/cuda/device_scope.hpp>
#include <b10/copy/cuda/device_slots.hpp>
#include <b10/copy/cuda/ready.hpp>
#include <b10/copy/cuda/runtime.hpp>
#include <b10/copy/host_runs.hpp>
#include <b10/copy_engine.hpp>
#include <b10/device/copy_spans.hpp>
#include <b10/digest.hpp>
#include <b10/outcome.hpp>

namespace b10::copy::cuda {

/// How urgent the streams' kernels are beside those of the model.
enum class Priority : std::uint8_t { lowest, highest };

/// What every CUDA copy engine can be told.
struct EngineOptions {
  std::vector<int> devices{};  ///< whose memory it copies; empty: the current one of this thread
  /// Copies under way on each device. 0: as many slices as 128 MiB hold, but 4 to 64. That much
  /// keeps the bus busy while a matrix product of 1.5 ms lets no kernel in between (bench/results).
  unsigned slots = 0;
  /// Spans of one copy on one device, 1 or more; 16 bytes of pinned memory each, for each slot.
  std::uint32_t spans_max = 65'536;
  Priority priority = Priority::highest;
};

/// The pieces of one copy that lie together on its contiguous side and on one device.
struct Section {
  DeviceSlots* home = nullptr;  ///< null: host memory
  Slot* slot = nullptr;
  device::Layout layout{};   ///< what a kernel needs to know of the pieces
  std::uint64_t offset = 0;  ///< on the contiguous side
  std::uint64_t bytes = 0;
  std::uint32_t pieces = 0;
  bool digested = false;  ///< the device writes the parts of its digest into the slot
};

enum class Direction : std::uint8_t { gather, scatter };

/// Queues the steps of a copy one by one and remembers whether any was, and why one was not.
class Steps {
 public:
  /// False: stop here.
  bool operator()(cudaError_t error) noexcept {
    if (error == cudaSuccess)
      queued_ = true;
    else
      error_ = error;
    return error == cudaSuccess;
  }
  [[nodiscard]] bool any_queued() const noexcept { return queued_; }
  [[nodiscard]] cudaError_t error() const noexcept { return error_; }

 private:
  bool queued_ = false;
  cudaError_t error_ = cudaSuccess;
};

/// What the CUDA copy engines have in common: devices, slots, checked addresses, events. `Derived`
/// queues the copy of one section; see copy::Staged. One thread, in any order of devices.
template <class Derived>
class Engine {
 public:
  static constexpr bool ends_inline = false;
  using SourceReady = cuda::SourceReady;

  /// The copy's slots; they go back when query() has seen it end.
  class Event {
   public:
    Event() = default;
    Event(Event&& other) noexcept { *this = std::move(other); }
    Event& operator=(Event&& other) noexcept {
      slots_ = std::exchange(other.slots_, nullptr);
      digest_ = other.digest_;
      undigested_ = other.undigested_;
      return *this;
    }

   private:
    friend class Engine;
    Slot* slots_ = nullptr;
    std::uint64_t digest_ = 0;
    std::span<std::byte const> undigested_{};  // staging to digest once the copy has ended
  };

  /// `scratch_bytes`: of one slot, 0 if the engine needs none.
  Engine(EngineOptions const& options, std::uint64_t slice_bytes, std::size_t scratch_bytes)
      : options_(checked(options, slice_bytes)) {
    for (int const device : options_.devices) {
      devices_.push_back(std::make_unique<DeviceSlots>(
          SlotsOptions{.device = device,
                       .slots = options_.slots,
                       .table_bytes = device::SpanTable::bytes_max(options_.spans_max),
                       .scratch_bytes = scratch_bytes,
                       .partials = Derived::digests ? device::digest_partials_max : 0,
                       .high_priority = options_.priority == Priority::highest}));
    }
  }

  void gather(SpanRun from, std::byte* to, Event& event) {
    split(from);
    start_gather(from, to, event);
  }
  void scatter(std::byte const* from, SpanRun to, Event& event) {
    split(to);
    start_scatter(from, to, event);
  }
  void gather_digested(SpanRun from, std::byte* to, Event& event)
    requires Derived::digests
  {
    split(from);
    bool const on_device = digest_on_device();
    start_gather(from, to, event);
    digest_on_host(on_device, {to, from.bytes}, event);
  }
  void scatter_digested(std::byte const* from, SpanRun to, Event& event)
    requires Derived::digests
  {
    split(to);
    bool const on_device = digest_on_device();
    start_scatter(from, to, event);
    digest_on_host(on_device, {from, to.bytes}, event);
  }
  [[nodiscard]] std::uint64_t digest(Event const& event) const noexcept
    requires Derived::digests
  {
    return event.digest_;
  }
  [[nodiscard]] bool has_room() const noexcept {
    return std::all_of(devices_.begin(), devices_.end(), [](auto& d) { return d->any_free(); });
  }
  [[nodiscard]] CopyState query(Event& event) noexcept {
    CopyState state = CopyState::done;
    for (Slot* slot = event.slots_; slot; slot = slot->next) {
      cudaError_t const e = ask(slot->ended.get());
      if (e == cudaErrorNotReady) return CopyState::pending;
      if (e == cudaSuccess && slot->error == cudaSuccess) continue;
      failed_ = e != cudaSuccess ? e : slot->error;
      state = CopyState::failed;
    }
    for (Slot* slot = std::exchange(event.slots_, nullptr); slot;) {
      Slot* const next = slot->next;
      for (std::uint32_t i = 0; i < slot->partial_count; ++i) event.digest_ += slot->partials[i];
      // Of a copy whose event cannot tell, nobody knows when it ends: its slot is never used again.
      if (ask(slot->ended.get()) == cudaSuccess) slot->home->give_back(slot);
      slot = next;
    }
    if (auto const staged = std::exchange(event.undigested_, {}); !staged.empty()) {
      Digest digest;
      digest.update(staged.data(), staged.size());
      event.digest_ = digest.value();
    }
    return state;
  }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) noexcept {
    for (cudaEvent_t const event : ready.events) {
      cudaError_t const e = ask(event);
      if (e == cudaErrorNotReady) return CopyState::pending;
      if (e == cudaSuccess) continue;
      failed_ = e;
      return CopyState::failed;
    }
    return CopyState::done;
  }
  [[nodiscard]] std::string why() const {
    return failed_ == cudaSuccess ? std::string() : describe(failed_);
  }
  /// The device's streams, for tests and for those who must order other work against copies. Null:
  /// not one of Options::devices.
  [[nodiscard]] DeviceSlots const* device(int ordinal) const noexcept {
    for (auto const& d : devices_)
      if (d->device() == ordinal) return d.get();
    return nullptr;
  }

 protected:
  /// Calls f(address, offset within the section, bytes) for each piece of it.
  template <class F>
  static void for_each_piece(Section const& s, SpanRun run, F&& f) {
    std::uint64_t at = 0;
    run.for_each([&](std::byte* address, std::uint64_t bytes, Device) {
      if (at >= s.offset && at < s.offset + s.bytes) f(address, at - s.offset, bytes);
      at += bytes;
    });
  }

 private:
  static EngineOptions checked(EngineOptions o, std::uint64_t slice_bytes) {
    auto const refuse = [](std::string const& why) { throw Error(Reason::invalid_request, why); };
    constexpr std::uint64_t in_flight_bytes = 128u << 20;
    if (o.slots == 0)
      o.slots = static_cast<unsigned>(std::clamp<std::uint64_t>(
          in_flight_bytes / std::max<std::uint64_t>(slice_bytes, 1), 4, 64));
    if (o.spans_max == 0) refuse("Options::spans_max is 0, it must be at least 1");
    int count = 0;
    require(cudaGetDeviceCount(&count), Reason::refused,
            "a CUDA copy engine finds no device (without one use b10::HostTransceiver)");
    if (o.devices.empty()) {
      o.devices.resize(1);
      require(cudaGetDevice(&o.devices[0]), Reason::refused, "no current CUDA device");
    }
    for (auto d = o.devices.begin(); d != o.devices.end(); ++d) {
      if (*d < 0 || *d >= count)
        refuse("Options::devices names device " + std::to_string(*d) + ", but there are " +
               std::to_string(count));
      if (std::find(o.devices.begin(), d, *d) != d)
        refuse("Options::devices names device " + std::to_string(*d) + " twice");
    }
    return o;
  }

  Derived& derived() noexcept { return static_cast<Derived&>(*this); }

  void start_gather(SpanRun from, std::byte* to, Event& event) {
    start(Direction::gather, event, [&](Section const& s, Steps& steps) {
      if (s.home) return derived().queue_gather(s, from, to + s.offset, steps);
      for_each_piece(s, from, [&](std::byte const* address, std::uint64_t at, std::uint64_t n) {
        std::memcpy(to + s.offset + at, address, n);
      });
    });
  }
  void start_scatter(std::byte const* from, SpanRun to, Event& event) {
    start(Direction::scatter, event, [&](Section const& s, Steps& steps) {
      if (s.home) return derived().queue_scatter(from + s.offset, s, to, steps);
      for_each_piece(s, to, [&](std::byte* address, std::uint64_t at, std::uint64_t n) {
        std::memcpy(address, from + s.offset + at, n);
      });
    });
  }

  /// The devices digest a copy whose sections all begin with a word, one section a device: all but
  /// a slice that mixes memories at odd places. That one the host digests when it has ended.
  [[nodiscard]] bool digest_on_device() noexcept {
    for (Section const& s : sections_) {
      if (s.offset % sizeof(std::uint64_t) != 0) return false;
      for (Section const* before = sections_.data(); before != &s; ++before)
        if (s.home && before->home == s.home) return false;
    }
    for (Section& s : sections_) {
      if (!s.home) continue;
      s.digested = true;
      s.slot->partial_count = device::digest_partials(s.bytes);
    }
    return true;
  }
  /// What the devices do not: host spans, or all of it.
  void digest_on_host(bool on_device, std::span<std::byte const> staged, Event& event) noexcept {
    if (!on_device) event.undigested_ = staged;
    for (Section const& s : sections_) {
      if (!on_device || s.home) continue;
      Digest digest(s.offset / sizeof(std::uint64_t));
      digest.update(staged.data() + s.offset, s.bytes);
      event.digest_ += digest.value();
    }
  }

  /// Cuts the run into sections and checks every address, with nothing queued yet.
  void split(SpanRun run) {
    sections_.clear();
    allocations_.forget();
    try {
      std::uint64_t at = 0;
      device::SpanTable table(nullptr, 0);
      run.for_each([&](std::byte* address, std::uint64_t bytes, Device device) {
        Section* s = sections_.empty() ? nullptr : &sections_.back();
        if (!s || device != device_of(*s)) {
          finish(s, table);
          s = &open(device, at, table);
        }
        if (s->home) {
          allocations_.require_within(address, bytes, s->home->device());
          if (--room_ < 0) refuse_length(s->home->device());
          table.add(address, bytes);
        }
        ++s->pieces;
        s->bytes += bytes;
        at += bytes;
      });
      if (!sections_.empty()) finish(&sections_.back(), table);
    } catch (...) {
      for (Section const& s : sections_) give_back(s);
      sections_.clear();
      throw;
    }
  }
  static Device device_of(Section const& s) noexcept {
    return s.home ? Device{s.home->device()} : Device::host;
  }
  static void finish(Section* s, device::SpanTable& table) noexcept {
    if (s && s->home) s->layout = table.finish();
  }
  /// Sections of one device share its slot and follow one another in its table.
  Section& open(Device device, std::uint64_t at, device::SpanTable& table) {
    Section s{.offset = at};
    if (device == Device::host && !Derived::reaches_host)
      throw Error(Reason::copy_failed, std::string(Derived::name) +
                                           " cannot copy host memory: its staging is GPU memory");
    if (device != Device::host) {
      for (auto& d : devices_)
        if (Device{d->device()} == device) s.home = d.get();
      if (!s.home)
        throw Error(Reason::copy_failed,
                    "a span is on device " + std::to_string(to_integer(device)) +
                        ", which is not in the copy engine's Options::devices");
      std::size_t used = 0;
      for (Section const& before : sections_) {
        if (before.home != s.home) continue;
        s.slot = before.slot;
        used += before.pieces;
      }
      room_ = static_cast<std::int64_t>(options_.spans_max - used);
      if (!s.slot && !s.home->any_free())
        throw Error(Reason::copy_failed, "a copy was started without room for it");
      if (!s.slot) s.slot = s.home->take();
      table = device::SpanTable(s.slot->table + device::SpanTable::bytes_max(used),
                                device::SpanTable::bytes_max(options_.spans_max - used));
    }
    return sections_.emplace_back(s);
  }
  [[noreturn]] void refuse_length(int device) const {
    throw Error(Reason::copy_failed, "one slice has more than " +
                                         std::to_string(options_.spans_max) + " spans on device " +
                                         std::to_string(device) +
                                         " (Options::spans_max of the copy engine)");
  }
  void give_back(Section const& s) noexcept {
    if (!s.home) return;
    for (Section const* before = sections_.data(); before != &s; ++before)
      if (before->slot == s.slot) return;
    s.home->give_back(s.slot);
  }

  /// Queues every section, then records each device's event. While nothing is queued it throws;
  /// after that the event tells, because what is queued already may touch both sides.
  template <class Queue>
  void start(Direction direction, Event& event, Queue&& queue) {
    event = Event{};
    Steps steps;
    for (Section const& s : sections_) {
      if (s.home) {
        DeviceScope const on(s.home->device());
        if (on.status() == cudaSuccess)
          queue(s, steps);
        else
          (void)steps(on.status());
      } else {
        queue(s, steps);
      }
      if (steps.error() != cudaSuccess) break;
    }
    if (steps.error() != cudaSuccess && !steps.any_queued()) {
      for (Section const& s : sections_) give_back(s);
      throw Error(Reason::copy_failed,
                  std::string(Derived::name) + " cannot start: " + describe(steps.error()));
    }
    for (Section const& s : sections_) {
      if (!s.home || is_linked(event, s.slot)) continue;
      s.slot->error = steps.error();
      s.slot->next = std::exchange(event.slots_, s.slot);
      DeviceScope const on(s.home->device());
      auto const e = cudaEventRecord(s.slot->ended.get(), Derived::last_stream(*s.slot, direction));
      if (e != cudaSuccess) s.slot->error = e;
    }
  }
  static bool is_linked(Event const& event, Slot const* slot) noexcept {
    for (Slot const* s = event.slots_; s; s = s->next)
      if (s == slot) return true;
    return false;
  }

  EngineOptions options_;
  Allocations allocations_{};
  std::vector<std::unique_ptr<DeviceSlots>> devices_{};
  std::vector<Section> sections_{};  // of the copy being started; a member to keep its memory
  std::int64_t room_ = 0;            // spans that the newest section may still take
  cudaError_t failed_ = cudaSuccess;
};

}  // namespace b10::copy::cuda
