#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <b10/copy/fake_control.hpp>
#include <b10/sim/journal.hpp>
#include <b10/transport/sim/model.hpp>

#include "sim/schedule.hpp"
#include "sim/tally.hpp"

namespace campaign {

/// A fault whose step has come: to be done as soon as nothing is in the middle of anything.
struct Strike {
  Fault fault{};
  b10::sim::NodeId sender{}, receiver{};
};

/// Sees every event of a run: counts the protocol's steps, notices when a fault is due, which nodes
/// were hit, and what must not happen twice (K7).
class Watcher final : public b10::sim::Observer {
 public:
  Watcher(std::vector<Fault> const& faults, Tally& tally) : tally_(tally) {
    for (Fault const& f : faults)
      if (!is_by_rule(f)) waiting_[static_cast<std::size_t>(f.step)].push_back(f);
  }
  /// Message faults are rules of the network from the start.
  [[nodiscard]] static bool is_by_rule(Fault const& f) {
    return is_message_fault(f.action) && kind_posted(f.step).has_value();
  }

  void saw(b10::sim::Event const& e) override {
    using b10::sim::What;
    if (auto const step = step_of(e)) passed(*step, e);
    if (e.what == What::message_fault) message_fault(e);
    if (e.what == What::copy_fault && e.detail == static_cast<unsigned>(b10::copy::CopyFault::hold))
      held.push_back(e.node);
    if (e.what == What::copy_fault)
      tally_.hit(e.bytes == 0 ? Step::gather_started : Step::scatter_started,
                 static_cast<Action>(static_cast<unsigned>(Action::hold_copy) + e.detail));
    if (e.what == What::late && e.name) late_.insert(to_integer(e.name->transfer));
    if (e.what == What::matched && e.name && e.name->kind == b10::MessageKind::data &&
        over_.contains(to_integer(e.name->transfer)))
      alias_.insert(to_integer(e.name->transfer));
    if (e.what == What::gather_ended || e.what == What::scatter_ended) mark(copies_ended, e.node);
    if (e.what == What::matched && to_integer(e.tag) != 0 &&
        !matched_.insert(to_integer(e.tag)).second)
      tally_.breach(Breach::tag_matched_twice, to_string(e));
    if (e.what == What::link_up &&
        !generations_.emplace(to_integer(e.node), to_integer(e.other), e.bytes).second)
      tally_.breach(Breach::generation_reused, to_string(e));
  }

  [[nodiscard]] std::vector<Strike> take_strikes() { return std::exchange(strikes_, {}); }
  /// Bytes of it landed after its receive had been given up.
  [[nodiscard]] bool was_late(std::uint64_t transfer) const { return late_.contains(transfer); }
  /// Its DATA met a receive after it was over at its receiver.
  [[nodiscard]] bool was_alias(std::uint64_t transfer) const { return alias_.contains(transfer); }
  void over_at_receiver(std::uint64_t transfer) { over_.insert(transfer); }
  /// A copy of it may still write a view of its receiver, where it is over.
  void copies_late(std::uint64_t transfer) { late_.insert(transfer); }

  /// By node id.
  std::vector<bool> copies_ended{};
  std::vector<bool> hit{};
  std::vector<b10::sim::NodeId> held{};  ///< nodes of copies that have just been held up

  static void mark(std::vector<bool>& flags, b10::sim::NodeId id) {
    auto const i = to_integer(id);
    if (id == b10::sim::NodeId::none) return;
    if (flags.size() <= i) flags.resize(i + std::size_t{1});
    flags[i] = true;
  }

 private:
  void passed(Step step, b10::sim::Event const& e) {
    auto const s = static_cast<std::size_t>(step);
    auto const n = tally_.steps[s]++;
    for (Fault const& f : waiting_[s]) {
      if (f.skip != n) continue;
      strikes_.push_back(is_at_receiver(step) ? Strike{f, e.other, e.node}
                                              : Strike{f, e.node, e.other});
    }
  }
  void message_fault(b10::sim::Event const& e) {
    mark(hit, e.node);
    mark(hit, e.other);
    auto const action = static_cast<Action>(e.detail);
    if (!e.name) return tally_.hit(Step::receive_posted, action);
    for (std::size_t s = 0; s < step_count; ++s)
      if (kind_posted(static_cast<Step>(s)) == e.name->kind)
        tally_.hit(static_cast<Step>(s), action);
  }

  Tally& tally_;
  std::array<std::vector<Fault>, step_count> waiting_{};
  std::vector<Strike> strikes_{};
  std::unordered_set<std::uint64_t> late_{};
  std::unordered_set<std::uint64_t> over_{};
  std::unordered_set<std::uint64_t> alias_{};
  std::unordered_set<std::uint64_t> matched_{};
  std::set<std::tuple<std::uint16_t, std::uint16_t, std::uint64_t>> generations_{};
};

}  // namespace campaign
