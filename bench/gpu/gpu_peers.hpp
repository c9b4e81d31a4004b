// The two processes of write_bench_gpu: each has a GPU, a pool on it, a transceiver and a bare UCX
// loop, and does one thing at a time, so that what is compared shares everything else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/plan.hpp>
#include <b10/grant.hpp>
#include <b10/steady_clock.hpp>

#include "../cpus.hpp"
#include "../pair.hpp"
#include "../raw_ucx.hpp"
#include "../workloads.hpp"
#include "device_pool.hpp"

#include "gpu_rig.hpp"
#include "plain_copy.hpp"

namespace b10::bench {

enum class How : std::uint8_t {
  b10,  ///< WRITE, every word of both pools checked
  /// Pinned staging: bare UCX loop between hot pinned buffers of the same slices and depth. Staging
  /// that peers write: one plain copy of the same bytes over the same way.
  wire,
  gather,   ///< the sender's copies alone
  scatter,  ///< the receiver's copies alone
};
inline constexpr std::size_t hows = 4;

/// What both processes know from the start.
struct Setup {
  Workload workload;
  std::size_t sets;
  transport::ucx::Wire wire;
  int sender_gpu;
  int receiver_gpu;
  bool bare_loop;  ///< whether How::wire will be asked for
  StagingKind staging;
  std::array<Cpus, 2> cpus;  ///< of sender and receiver; empty: as run_pair pins them
};

enum class Order : std::uint8_t { open, arm, check, scatter, close, quit };
struct Command {
  Order order;
  How how;
  EngineKind engine;
  Progress progress;
  unsigned depth;
  std::uint64_t slice;
  std::uint64_t set;
};
/// A text follows: what was asked for, or why it failed.
struct Answer {
  bool ok = true;
  double seconds = 0;
  Wrong wrong{};
};

inline constexpr std::uint64_t source_seed = 0x243f'6a88'85a3'08d3u;
inline constexpr std::uint64_t canary_seed = 0x1319'8a2e'0370'7344u;

/// What sender and receiver have in common.
class Peer {
 public:
  static constexpr std::uint64_t data_tag = 1 << 20;
  static constexpr std::uint64_t result_tag = 1;
  static constexpr auto write_limit = seconds(45);  // a Side gives up after a minute

  Peer(Side side, Setup const& setup, std::size_t index, int gpu, std::uint64_t seed)
      : side_(side),
        setup_(pinned(setup, index)),
        gpu_(gpu),
        source_(setup.workload, setup.sets, 1),
        destination_(setup.workload, setup.sets, 2),
        pool_(gpu, source_.pool_bytes(), seed) {
    if (!setup_.bare_loop) return;
    raw_ = std::make_unique<RawUcx>(to_string(setup_.wire), "lo");
    side_.put_blob(raw_->address());
    raw_->connect(side_.get_blob());
  }

 protected:
  [[nodiscard]] RigOptions options(std::string name, Command const& c) const {
    return {std::move(name), gpu_,       c.engine, setup_.staging,
            setup_.wire,     c.progress, c.depth,  c.slice};
  }
  [[nodiscard]] std::uint64_t bytes() const { return setup_.workload.bytes(); }
  [[nodiscard]] std::size_t messages(Command const& c) const {
    return static_cast<std::size_t>((bytes() + c.slice - 1) / c.slice);
  }
  [[nodiscard]] static std::vector<LocalSpan> spans_of(std::vector<Piece> const& pieces,
                                                       std::byte* base, int gpu) {
    std::vector<LocalSpan> out;
    out.reserve(pieces.size());
    for (Piece const& p : pieces) out.push_back({base + p.offset, p.bytes, Device{gpu}});
    return out;
  }
  /// The WRITE of set `s` as the sender plans it. Only that process may follow its sources.
  [[nodiscard]] core::Plan plan_of(std::size_t s, std::byte* source_base,
                                   std::byte* destination_base) const {
    auto const sources = spans_of(source_.set(s), source_base, setup_.sender_gpu);
    std::vector<RemoteSpan> destinations;
    for (auto const& d : spans_of(destination_.set(s), destination_base, setup_.receiver_gpu))
      destinations.push_back(as_remote(d));
    return core::make_plan(sources, destinations, std::uint64_t{1} << 24);
  }
  /// Message i of a bare loop.
  [[nodiscard]] std::span<std::byte> message(Command const& c, std::size_t i, std::size_t slot) {
    return {hot_->slot(slot), std::min<std::uint64_t>(c.slice, bytes() - i * c.slice)};
  }
  void open_hot(Command const& c) {
    hot_.reset();
    if (setup_.bare_loop) hot_ = std::make_unique<PinnedSlots>(gpu_, c.depth, c.slice);
  }

  Side side_;
  Setup setup_;
  int gpu_;
  Layout source_;
  Layout destination_;
  DevicePool pool_;
  std::unique_ptr<PinnedSlots> hot_{};  // of the bare loop
  std::unique_ptr<RawUcx> raw_{};
  std::unique_ptr<Rig> rig_{};

 private:
  static Setup const& pinned(Setup const& setup, std::size_t index) {
    pin(setup.cpus[index]);
    return setup;
  }
};

/// What one run of once() found.
struct Run {
  double seconds = 0;
  StageTimes stages{};
  Wrong destination{};
  Wrong source{};     ///< a WRITE must leave it alone
  std::string why{};  ///< not empty: it did not land, close() is due
};

class Sender : Peer {
 public:
  Sender(Side side, Setup const& setup) : Peer(side, setup, 0, setup.sender_gpu, source_seed) {
    side_.put(reinterpret_cast<std::uintptr_t>(pool_.data()));
    base_ = reinterpret_cast<std::byte*>(side_.get<std::uintptr_t>());
  }
  ~Sender() {
    try {
      side_.put(Command{Order::quit, {}, {}, {}, {}, {}, {}});
    } catch (...) {  // it has gone already
    }
  }

  /// Makes a transceiver of these slices on both sides and connects them. Throws
  /// std::runtime_error; then close() is due.
  void open(Command c) {
    rig_ = make_rig(options("sender", c));
    open_hot(c);
    c.order = Order::open;
    std::string address;
    (void)ask(c, &address);
    rig_->connect(address);
  }
  void close(Command c) {
    rig_.reset();
    c.order = Order::close;
    (void)ask(c);
  }
  [[nodiscard]] std::string explain() { return rig_->explain(); }

  /// Moves or copies one set once. Seconds from the first call to the receiver's answer.
  [[nodiscard]] Run once(Command c) {
    switch (c.how) {
      case How::b10:
        return write(c);
      case How::wire:
        if (setup_.staging == StagingKind::pinned) return {.seconds = loop(c)};
        if (!plain_)
          plain_ =
              std::make_unique<PlainCopy>(setup_.sender_gpu, setup_.receiver_gpu, setup_.staging);
        return {.seconds = plain_->seconds(bytes())};
      case How::gather: {
        auto const plan = plan_of(c.set, pool_.data(), base_);
        std::span<LocalSpan const> const spans(plan.sources);
        return {.seconds = rig_->copy_alone(Way::gather, spans, core::cut(spans, c.slice))};
      }
      case How::scatter:
        c.order = Order::scatter;
        return {.seconds = ask(c).seconds};
    }
    return {};
  }

 private:
  Answer ask(Command const& c, std::string* text = nullptr) {
    side_.put(c);
    auto const answer = side_.get<Answer>();
    auto const blob = side_.get_blob();
    std::string const said(reinterpret_cast<char const*>(blob.data()), blob.size());
    if (!answer.ok) throw std::runtime_error("the receiver says: " + said);
    if (text) *text = said;
    return answer;
  }

  Run write(Command c) {
    auto const sources = spans_of(source_.set(c.set), pool_.data(), gpu_);
    std::vector<RemoteSpan> destinations;
    for (auto const& d : spans_of(destination_.set(c.set), base_, setup_.receiver_gpu))
      destinations.push_back(as_remote(d));
    c.order = Order::arm;
    (void)ask(c);
    auto const start = steady_now();
    auto const transfer = rig_->write(RequestId{c.set + 1}, sources, destinations, write_limit);
    auto const outcome = transfer.wait(write_limit + seconds(1));
    Run run{.seconds = (steady_now() - start).seconds(), .stages = transfer.stages()};
    if (!outcome || !outcome->ok()) {
      run.why = "WRITE did not land: " + (outcome ? outcome->why : "no outcome");
      return run;
    }
    c.order = Order::check;
    run.destination = ask(c).wrong;
    run.source = pool_.compare();
    return run;
  }

  double loop(Command c) {
    c.order = Order::arm;
    (void)ask(c);
    std::byte answer{};
    auto const start = steady_now();
    raw_->send(data_tag, messages(c), c.depth, [&](std::size_t i, std::size_t slot) {
      return std::span<std::byte const>(message(c, i, slot));
    });
    raw_->receive_one(result_tag, {&answer, 1});
    return (steady_now() - start).seconds();
  }

  std::byte* base_ = nullptr;  // of the receiver's pool, in its process
  std::unique_ptr<PlainCopy> plain_{};
};

class Receiver : Peer {
 public:
  Receiver(Side side, Setup const& setup)
      : Peer(side, setup, 1, setup.receiver_gpu, canary_seed), landings_(gpu_, landings()) {
    prove_check();
    side_.put(reinterpret_cast<std::uintptr_t>(pool_.data()));
    base_ = reinterpret_cast<std::byte*>(side_.get<std::uintptr_t>());
  }

  void serve() {
    for (;;) {
      // In manual mode nobody else turns the lane.
      for (unsigned i = 0; rig_ && manual_ && (i % 64 != 0 || !side_.readable(0)); ++i)
        rig_->progress();
      auto const c = side_.get<Command>();
      if (c.order == Order::quit) return;
      if (c.order == Order::arm && c.how == How::wire) {
        loop(c);
        continue;
      }
      Answer answer;
      std::string text;
      try {
        answer = follow(c, text);
      } catch (std::exception const& e) {
        answer.ok = false;
        text = e.what();
      }
      tell(answer, text);
    }
  }

 private:
  /// So short that one warp each is enough.
  static constexpr std::uint64_t landing_bytes_max = 16 << 10;

  std::vector<Landing> landings() {
    std::vector<Landing> out;
    for (std::size_t s = 0; s < setup_.sets; ++s) {
      first_.push_back(out.size());
      auto const& from = source_.set(s);
      auto const& to = destination_.set(s);
      for (std::size_t i = 0; i < to.size(); ++i) {
        for (std::uint64_t at = 0; at < to[i].bytes; at += landing_bytes_max)
          out.push_back({(to[i].offset + at) / word_bytes, (from[i].offset + at) / word_bytes,
                         std::min(landing_bytes_max, to[i].bytes - at) / word_bytes});
      }
    }
    first_.push_back(out.size());
    return out;
  }
  [[nodiscard]] Wrong wrong_in(std::uint64_t set) {
    auto const s = static_cast<std::size_t>(set % setup_.sets);
    Wrong wrong = pool_.take(landings_, first_[s], first_[s + 1] - first_[s], source_seed);
    wrong.add(pool_.compare());
    return wrong;
  }
  /// A check that finds nothing proves nothing unless it would find something.
  void prove_check() {
    auto const missing = wrong_in(0);  // nothing has landed
    pool_.spoil(source_.pool_bytes() / word_bytes - 1);
    auto const spoilt = pool_.compare();
    pool_.fill();
    if (missing.words == bytes() / word_bytes && spoilt.words == 1 && pool_.compare().words == 0)
      return;
    throw std::runtime_error(
        "the check of the pool does not work: " + std::to_string(missing.words) +
        " words missing instead of " + std::to_string(bytes() / word_bytes) + ", then " +
        std::to_string(spoilt.words) + " spoilt instead of 1");
  }

  void tell(Answer const& answer, std::string const& text) {
    side_.put(answer);
    side_.put_blob(std::as_bytes(std::span(text)));
  }
  Answer follow(Command const& c, std::string& text) {
    switch (c.order) {
      case Order::open:
        rig_ = make_rig(options("receiver", c));
        rig_->register_memory(pool_.span());
        manual_ = c.progress == Progress::manual;
        open_hot(c);
        text = rig_->address();
        return {};
      case Order::arm:
        grant_.emplace(rig_->grant(RequestId{c.set + 1},
                                   spans_of(destination_.set(c.set), pool_.data(), gpu_),
                                   seconds(120)));
        return {};
      case Order::check:
        return check(c);
      case Order::scatter:
        return scatter(c);
      case Order::close:
        grant_.reset();
        rig_.reset();
        pool_.fill();
        return {};
      case Order::quit:
        break;
    }
    return {};
  }
  Answer check(Command const& c) {
    auto const outcome = grant_->next(seconds(5));
    grant_.reset();
    if (!outcome) throw std::runtime_error("the WRITE landed, but the grant has no outcome");
    if (!outcome->ok()) throw std::runtime_error("the WRITE failed here: " + outcome->why);
    return {.wrong = wrong_in(c.set)};
  }
  Answer scatter(Command const& c) {
    auto plan = plan_of(c.set, base_, pool_.data());
    auto const destinations =
        std::move(plan.destinations).turn_into<LocalSpan>([](RemoteSpan const& s) {
          return LocalSpan{reinterpret_cast<std::byte*>(s.address), s.bytes, s.device};
        });
    std::span<LocalSpan const> const spans(destinations);
    Answer const answer{.seconds =
                            rig_->copy_alone(Way::scatter, spans, core::cut(spans, c.slice))};
    pool_.fill();
    return answer;
  }
  void loop(Command const& c) {
    raw_->receive(
        data_tag, messages(c), c.depth,
        [&](std::size_t i, std::size_t slot) { return message(c, i, slot); }, [&] { tell({}, {}); },
        [](std::size_t, std::size_t) {});
    std::byte const answer{1};
    raw_->send_one(result_tag, {&answer, 1});
  }

  std::vector<std::size_t> first_{};  // landings of each set; before landings_, which fills it
  DeviceLandings landings_;
  std::byte* base_ = nullptr;  // of the sender's pool, in its process
  bool manual_ = false;
  std::optional<Grant> grant_{};
};

}  // namespace b10::bench
