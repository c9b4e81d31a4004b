// The two processes of write_bench: each has a pool, a transceiver and a bare UCX loop, and does
// one thing at a time, so that what is compared shares everything else.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/core/plan.hpp>
#include <b10/transceiver.hpp>

#include "pair.hpp"
#include "raw_ucx.hpp"
#include "workloads.hpp"

namespace b10::bench {

/// copy::Memcpy with a switch. Off, copies end at once and move nothing: what is left is what a
/// lane costs whose copies are done by somebody else's DMA.
struct Switched : copy::Memcpy {
  static constexpr std::string_view name = "copy::Memcpy (switched)";
  struct Options {
    std::atomic<bool> const* off = nullptr;
  };

  Switched(Options const& o, std::uint64_t) : off_(o.off) {}
  void gather(SpanRun from, std::byte* to, Event& e) const {
    if (!off_ || !*off_) copy::Memcpy::gather(from, to, e);
  }
  void scatter(std::byte const* from, SpanRun to, Event& e) const {
    if (!off_ || !*off_) copy::Memcpy::scatter(from, to, e);
  }

 private:
  std::atomic<bool> const* off_;
};

/// Slices and depth are set at run time: Options::buffer_bytes bounds the one,
/// Config::max_in_flight_ops the other. Options::share says whether payloads go over the wire.
using Node =
    Transceiver<staging::SharedHost<slicing::Pipelined<std::uint64_t{64} << 20, 64>, Switched>>;

enum class How : std::uint8_t {
  b10,
  raw,        ///< bare loop from the whole source to the whole destination, contiguous
  by_hand,    ///< bare loop with the gathers and scatters that B10 does, in the same staging sizes
  wire_only,  ///< B10 with its copies switched off
  raw_hot,    ///< bare loop over `depth` buffers that stay in the cache: the same without B10
};
inline constexpr std::size_t hows = 5;
[[nodiscard]] constexpr bool is_b10(How how) { return how == How::b10 || how == How::wire_only; }

/// What both processes know from the start.
struct Setup {
  Workload workload;
  std::size_t sets;
  transport::ucx::Wire wire;
  bool share;  ///< payloads written into the receiver's staging, not sent
};

enum class Order : std::uint8_t { open, arm, check, close, quit };
struct Command {
  Order order;
  How how;
  Progress progress;
  unsigned depth;
  std::uint64_t slice;
  std::uint64_t set;
};

/// Zeroed, resident, page-aligned memory.
class Pool {
 public:
  explicit Pool(std::uint64_t bytes) : bytes_(bytes) {
    void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
      throw std::runtime_error("no memory for a pool of " + std::to_string(bytes) + " bytes");
    data_ = static_cast<std::byte*>(p);
  }
  Pool(Pool const&) = delete;
  Pool& operator=(Pool const&) = delete;
  ~Pool() { munmap(data_, bytes_); }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] LocalSpan span() const { return {data_, bytes_}; }

 private:
  std::uint64_t bytes_;
  std::byte* data_;
};

/// What sender and receiver have in common.
class Peer {
 public:
  static constexpr std::uint64_t data_tag = 1 << 20;
  static constexpr std::uint64_t result_tag = 1;
  static constexpr auto poison = std::byte{0xa5};

  Peer(Side side, Setup const& setup)
      : side_(side),
        setup_(setup),
        source_(setup.workload, setup.sets, 1),
        destination_(setup.workload, setup.sets, 2),
        pool_(source_.pool_bytes()),
        raw_(to_string(setup.wire), "lo") {
    side_.put_blob(raw_.address());
    raw_.connect(side_.get_blob());
  }

 protected:
  [[nodiscard]] Node::Config config(std::string name, Command const& c) const {
    Node::Config config;
    config.name = std::move(name);
    config.staging.buffer_bytes = c.slice;
    config.staging.buffers = 2 * c.depth;
    config.staging.share = setup_.share;
    config.staging.copies.off = &copies_off_;
    config.transport.key = "a key for measuring only";
    config.transport.wire = setup_.wire;
    config.max_in_flight_ops = c.depth;
    config.progress = c.progress;
    return config;
  }
  [[nodiscard]] std::uint64_t bytes() const { return setup_.workload.bytes(); }
  [[nodiscard]] std::vector<LocalSpan> spans_of(std::vector<Piece> const& pieces) const {
    std::vector<LocalSpan> out;
    out.reserve(pieces.size());
    for (Piece const& p : pieces) out.push_back({pool_.data() + p.offset, p.bytes});
    return out;
  }
  /// Message i of a bare loop over set `c.set`, where the pool is seen as contiguous sets.
  [[nodiscard]] std::span<std::byte> message(Command const& c, std::size_t i, std::size_t slot) {
    auto const n = std::min<std::uint64_t>(c.slice, bytes() - i * c.slice);
    if (c.how == How::raw_hot || c.how == How::by_hand) return {staging(c) + slot * c.slice, n};
    return {pool_.data() + (c.set % setup_.sets) * bytes() + i * c.slice, n};
  }
  [[nodiscard]] std::size_t messages(Command const& c) const {
    return static_cast<std::size_t>((bytes() + c.slice - 1) / c.slice);
  }
  [[nodiscard]] std::byte* staging(Command const& c) {
    if (!staging_) staging_.emplace(c.slice * c.depth);
    return staging_->data();
  }
  [[nodiscard]] static SpanRun run_of(std::vector<LocalSpan> const& spans, core::Chunk const& c) {
    return {std::span(spans).subspan(c.first, c.count), c.skip, c.bytes};
  }

  Side side_;
  Setup setup_;
  Layout source_;
  Layout destination_;
  Pool pool_;
  RawUcx raw_;
  std::atomic<bool> copies_off_{false};
  std::optional<Pool> staging_{};  // of the bare loops
  std::unique_ptr<Node> node_{};
};

class Sender : Peer {
 public:
  Sender(Side side, Setup const& setup) : Peer(side, setup) {
    Contents(7).fill(pool_.data(), 0, source_.pool_bytes());
    base_ = side_.get<std::uint64_t>();
    for (std::size_t s = 0; s < setup_.sets; ++s) {
      auto& list = remote_.emplace_back();
      for (Piece const& p : destination_.set(s)) list.push_back({base_ + p.offset, p.bytes});
      local_.push_back(spans_of(source_.set(s)));
    }
  }
  ~Sender() { side_.put(Command{Order::quit, {}, {}, {}, {}, {}}); }

  /// Makes a transceiver with these slices on both sides and connects them.
  void open(Command c) {
    c.order = Order::open;
    node_ = std::make_unique<Node>(config("sender", c));
    staging_.reset();
    side_.put(c);
    auto const blob = side_.get_blob();
    std::string const address(reinterpret_cast<char const*>(blob.data()), blob.size());
    auto const connecting = node_->begin_connect(address, seconds(5));
    auto const until = steady_now() + seconds(6);
    while (!connecting.done() && steady_now() < until) {
      if (c.progress == Progress::manual)
        node_->progress();
      else
        usleep(100);
    }
    if (!connecting.peer()) throw std::runtime_error("connect: " + connecting.error());
    peer_ = *connecting.peer();
  }
  void close(Command c) {
    c.order = Order::close;
    side_.put(c);
    node_.reset();
    (void)side_.get<bool>();
  }
  [[nodiscard]] std::string explain() { return node_->explain(); }

  /// Moves one set once, and has the receiver check every byte, where any was meant to arrive.
  /// Seconds from the first call to the receiver's answer.
  [[nodiscard]] double once(Command c) {
    c.order = Order::arm;
    side_.put(c);
    (void)side_.get<bool>();
    copies_off_ = c.how == How::wire_only;
    double const time = is_b10(c.how) ? write(c) : loop(c);
    c.order = Order::check;
    side_.put(c);
    if (!side_.get<bool>()) throw std::runtime_error("wrong bytes arrived");
    return time;
  }
  [[nodiscard]] StageTimes stages() const { return stages_; }

 private:
  double write(Command const& c) {
    auto const set = c.set % setup_.sets;
    auto const start = steady_now();
    auto const transfer = node_->write(peer_, {.request = RequestId{c.set + 1},
                                               .sources = local_[set],
                                               .destinations = remote_[set],
                                               .deadline = seconds(30)});
    auto const outcome = transfer.wait(seconds(31));
    auto const time = steady_now() - start;
    if (!outcome || !outcome->ok())
      throw std::runtime_error("WRITE did not land: " + (outcome ? outcome->why : "no outcome"));
    stages_ = transfer.stages();
    return time.seconds();
  }
  double loop(Command const& c) {
    auto const& spans = local_[c.set % setup_.sets];
    auto const chunks = c.how == How::by_hand
                            ? core::cut(std::span<LocalSpan const>(spans), c.slice)
                            : std::vector<core::Chunk>{};
    std::byte answer{};
    copy::Memcpy::Event event;
    auto const start = steady_now();
    raw_.send(data_tag, messages(c), c.depth, [&](std::size_t i, std::size_t slot) {
      auto const to = message(c, i, slot);
      if (c.how == How::by_hand) copy::Memcpy{}.gather(run_of(spans, chunks[i]), to.data(), event);
      return std::span<std::byte const>(to);
    });
    raw_.receive_one(result_tag, {&answer, 1});
    return (steady_now() - start).seconds();
  }

  std::uint64_t base_ = 0;
  PeerId peer_{};
  std::vector<std::vector<LocalSpan>> local_{};
  std::vector<std::vector<RemoteSpan>> remote_{};
  StageTimes stages_{};
};

class Receiver : Peer {
 public:
  Receiver(Side side, Setup const& setup) : Peer(side, setup) {
    side_.put(reinterpret_cast<std::uint64_t>(pool_.data()));
  }

  void serve() {
    for (;;) {
      // In manual mode nobody else turns the lane.
      for (unsigned i = 0; node_ && manual_ && (i % 64 != 0 || !side_.readable(0)); ++i)
        node_->progress();
      auto const c = side_.get<Command>();
      switch (c.order) {
        case Order::open:
          open(c);
          break;
        case Order::arm:
          arm(c);
          break;
        case Order::check:
          side_.put(check(c));
          break;
        case Order::close:
          node_.reset();
          side_.put(true);
          break;
        case Order::quit:
          return;
      }
    }
  }

 private:
  void open(Command const& c) {
    manual_ = c.progress == Progress::manual;
    staging_.reset();
    node_ = std::make_unique<Node>(config("receiver", c));
    node_->register_memory(pool_.span());
    auto const address = node_->address();
    side_.put_blob(std::as_bytes(std::span(address)));
  }

  void arm(Command const& c) {
    auto const& pieces = destination_.set(c.set);
    copies_off_ = c.how == How::wire_only;
    if (c.how == How::raw) {
      std::memset(pool_.data() + (c.set % setup_.sets) * bytes(), std::to_integer<int>(poison),
                  bytes());
    } else {
      for (Piece const& p : pieces) {
        std::memset(pool_.data() + p.offset, std::to_integer<int>(poison), p.bytes);
      }
    }
    auto const spans = spans_of(pieces);
    if (is_b10(c.how)) {
      grant_.emplace(node_->grant(RequestId{c.set + 1}, spans, seconds(60)));
      side_.put(true);
      return;
    }
    auto const chunks = c.how == How::by_hand
                            ? core::cut(std::span<LocalSpan const>(spans), c.slice)
                            : std::vector<core::Chunk>{};
    copy::Memcpy::Event event;
    raw_.receive(
        data_tag, messages(c), c.depth,
        [&](std::size_t i, std::size_t slot) { return message(c, i, slot); },
        [&] { side_.put(true); },
        [&](std::size_t i, std::size_t slot) {
          if (c.how != How::by_hand) return;
          copy::Memcpy{}.scatter(message(c, i, slot).data(), run_of(spans, chunks[i]), event);
        });
    std::byte const answer{1};
    raw_.send_one(result_tag, {&answer, 1});
  }

  [[nodiscard]] bool check(Command const& c) {
    Contents const contents(7);
    if (c.how == How::raw_hot) return true;
    if (c.how == How::raw) {
      auto const offset = (c.set % setup_.sets) * bytes();
      return contents.matches(pool_.data() + offset, offset, bytes());
    }
    if (is_b10(c.how)) {
      auto const outcome = grant_->next(seconds(1));
      grant_.reset();
      if (!outcome || !outcome->ok()) return false;
      if (c.how == How::wire_only) return true;
    }
    auto const& from = source_.set(c.set);
    auto const& to = destination_.set(c.set);
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!contents.matches(pool_.data() + to[i].offset, from[i].offset, to[i].bytes)) return false;
    }
    return true;
  }

  bool manual_ = false;
  std::optional<Grant> grant_{};
};

}  // namespace b10::bench
