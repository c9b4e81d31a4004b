// The prefill process: computes KV (here: fills in a pattern) and writes it to decode's blocks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <csignal>

#include "common/memory.hpp"
#include "common/pattern.hpp"
#include "node.hpp"
#include "plane.hpp"
#include "pool.hpp"
#include "raw_pass.hpp"

namespace demo {

class Prefill {
 public:
  Prefill(Options options, b10::Device device)
      : options_(std::move(options)),
        device_(device),
        model_(load_model(options_.models, options_.model, options_.tp, options_.kv)),
        plane_(options_.plane),
        raw_(options_.wire) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlive decode
  }

  /// Serves until decode closes the channel.
  void run() {
    try {
      join(plane_.expect(Kind::hello, b10::seconds(10)));
      for (;;) {
        wait_readable(plane_.fd(), ended_->fd(), b10::seconds(1));
        while (auto end = ended_->pop()) report(*end);
        if (auto m = plane_.receive({})) handle(*m);
      }
    } catch (PeerGone const&) {
    }
    node_.reset();
  }

 private:
  struct Source {
    BlockTable table;
    Ready ready{};
    std::optional<b10::Transfer> transfer{};
  };
  struct End {
    std::uint64_t request;
    b10::Outcome outcome;
  };

  void join(Message const& hello) {
    theirs_.address = hello.numbers.at(0);
    theirs_.device = static_cast<b10::Device>(hello.numbers.at(1));
    std::vector<std::uint32_t> slots;
    for (std::size_t g = 0; g < model_.groups.size(); ++g)
      slots.push_back(static_cast<std::uint32_t>(hello.numbers.at(2 + g)));
    pool_ = std::make_unique<PagedPool>(PoolLayout(model_, std::move(slots)), device_,
                                        options_.seed + 1);
    // Pages touched later would look like growth.
    if (options_.stress) pool_->memory().fill(0, pool_->layout().bytes(), std::byte{0});
    auto const line = hello.text.find('\n');
    node_ = make_node({options_, "prefill", hello.text.substr(line + 1), device_});
    decode_ = node_->connect(hello.text.substr(0, line), b10::seconds(5));
    plane_.send({Kind::connected});
  }

  void handle(Message const& m) {
    switch (m.kind) {
      case Kind::prepare:
        return prepare(m);
      case Kind::prepared_all:
        return plane_.send({Kind::prepared_all});
      case Kind::write:
        return write(m);
      case Kind::raw:
        return raw_.send(plane_, m);
      case Kind::memory:
        return plane_.send({Kind::memory, 0, {resident_bytes()}});
      case Kind::explain:
        return plane_.send({Kind::explain, 0, {}, node_->explain()});
      default:
        throw std::runtime_error("decode asks for something unknown");
    }
  }

  /// Takes blocks for [first, end) of each group, and computes them if that is the CPU's work, so
  /// that it is not measured.
  void prepare(Message const& m) {
    std::vector<BlockRange> ranges;
    for (std::size_t g = 0; g < model_.groups.size(); ++g)
      ranges.push_back({m.numbers.at(2 * g), m.numbers.at(2 * g + 1)});
    auto table = pool_->take(ranges);
    if (!table) throw std::runtime_error("the source pool is full");
    if (!on_gpu()) compute(m.request, *table);
    sources_.insert_or_assign(m.request, Source{std::move(*table)});
  }
  Ready compute(std::uint64_t request, BlockTable const& table) {
    std::vector<Page> pages;
    for_each_span(pool_->layout(), table, [&](auto name, auto offset, auto bytes) {
      pages.push_back({offset, bytes, Pattern(request, name)});
    });
    return pool_->memory().compute(pages);
  }

  /// The transfer itself: from scattered blocks here to scattered blocks there. A GPU has only been
  /// told to compute them by then: B10 waits for its event.
  void write(Message const& m) {
    auto& source = sources_.at(m.request);
    if (on_gpu()) source.ready = compute(m.request, source.table);
    auto const target = get_table(m.numbers, pool_->layout().slots());
    std::vector<b10::LocalSpan> from;
    std::vector<b10::RemoteSpan> to;
    for_each_span(pool_->layout(), source.table, [&](auto, auto offset, auto bytes) {
      from.push_back(pool_->span(offset, bytes));
    });
    for_each_span(pool_->layout(), target, [&](auto, auto offset, auto bytes) {
      to.push_back({theirs_.address + offset, bytes, theirs_.device});
    });
    source.transfer = node_->write(
        decode_, {.request = b10::RequestId{m.request},
                  .sources = from,
                  .destinations = to,
                  .ready = source.ready,
                  .deadline = b10::milliseconds(static_cast<std::int64_t>(options_.deadline_ms))});
    source.transfer->on_done([ended = ended_, request = m.request](b10::Outcome const& o) {
      ended->push({request, o});
    });
  }

  void report(End const& end) {
    auto const found = sources_.find(end.request);
    auto const s = found->second.transfer->stages();
    // What a gather may still read is not given out again.
    if (end.outcome.sources_quiescent) pool_->give_back(found->second.table);
    sources_.erase(found);
    plane_.send(
        {Kind::done,
         end.request,
         {end.outcome.ok(), ns(s.queued), ns(s.connecting), ns(s.ready), ns(s.data), ns(s.result)},
         std::string(to_string(end.outcome.status)) + ", " +
             std::string(to_string(end.outcome.reason)) + ": " + end.outcome.why});
  }
  [[nodiscard]] bool on_gpu() const { return device_ != b10::Device::host; }
  static std::uint64_t ns(b10::Duration d) { return static_cast<std::uint64_t>(d.ns); }

  Options options_;
  b10::Device device_;
  Model model_;
  Plane plane_;
  RawPass raw_;
  std::shared_ptr<Mailbox<End>> ended_ = std::make_shared<Mailbox<End>>();
  b10::RemoteSpan theirs_{};  ///< where decode's pool starts
  std::unique_ptr<PagedPool> pool_;
  std::map<std::uint64_t, Source> sources_;
  std::unique_ptr<Node> node_;  ///< after what it reads
  b10::PeerId decode_{};
};

}  // namespace demo
