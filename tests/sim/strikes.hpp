#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <b10/copy/fake_control.hpp>
#include <b10/sim/random.hpp>
#include <b10/transport/sim/model.hpp>

#include "sim/scene.hpp"
#include "sim/schedule.hpp"
#include "sim/watcher.hpp"

namespace campaign {

/// A duration that was drawn as a number of microseconds.
[[nodiscard]] constexpr b10::Duration drawn_us(std::uint64_t n) noexcept {
  return b10::microseconds(static_cast<std::int64_t>(n));
}

/// What strikes the nodes of a scene: each fault of the schedule, as soon as its step has come and
/// nothing is in the middle of anything. Faults of messages are rules of the network instead.
template <class Transceiver>
class Strikes {
 public:
  explicit Strikes(Scene<Transceiver>& scene) : s_(scene) {
    for (Fault const& f : s_.setup.faults)
      if (Watcher::is_by_rule(f)) s_.network->add(rule_of(f, s_.setup.corrupt_payload));
  }

  void strike() {
    for (Strike const& s : s_.watcher.take_strikes()) strike(s);
    for (auto const id : std::exchange(s_.watcher.held, {}))
      if (auto const i = s_.node(id))
        s_.later(drawn_us(s_.random.between(std::uint64_t{100}, std::uint64_t{80'000})),
                 Todo::let_go, *i);
  }

 private:
  using Index = std::optional<std::size_t>;

  void strike(Strike const& s) {
    // A copy knows only its own node: the other end is that of a job it has.
    Index from = s_.node(s.sender), to = s_.node(s.receiver);
    if (!from && !to) return;
    if (!complete(from, to)) {
      // Nor do greetings, links and receives know who of both is the sender.
      std::swap(from, to);
      if (!complete(from, to)) std::swap(from, to);
    }
    Action const a = s.fault.action;
    bool const at_receiver = a == Action::stop_receiver || a == Action::kill_receiver ||
                             a == Action::jump_receiver || a == Action::revoke ||
                             s.fault.step == Step::scatter_started;
    Index const target = at_receiver ? to : from;
    if (!target || !s_.nodes[*target]->alive()) return;
    if (hit_node(*target, from, to, s.fault)) {
      if (!is_message_fault(a) && !is_copy_fault(a)) s_.tally.hit(s.fault.step, a);
    }
  }
  /// Makes them the two ends of an open job that fits, the oldest. False if there is none.
  [[nodiscard]] bool complete(Index& from, Index& to) const {
    for (Job const* j : s_.open) {
      if ((from && j->from != *from) || (to && j->to != *to)) continue;
      from = j->from;
      to = j->to;
      return true;
    }
    return false;
  }
  /// False if there was nothing to hit.
  bool hit_node(std::size_t i, Index from, Index to, Fault const& f) {
    auto& n = *s_.nodes[i];
    b10::sim::Random random(f.param);
    switch (f.action) {
      case Action::stop_sender:
      case Action::stop_receiver: {
        if (s_.network->stopped(n.name)) return false;
        ++n.disturbances;
        n.sick = true;
        n.stop();
        s_.later(drawn_us(random.between(std::uint64_t{50}, std::uint64_t{60'000})), Todo::resume,
                 i);
        return true;
      }
      case Action::kill_sender:
      case Action::kill_receiver:
        n.sick = true;
        s_.kill(i, drawn_us(random.between(std::uint64_t{10}, std::uint64_t{8'000})));
        return true;
      case Action::cut:
        n.sick = true;
        s_.network->cut(n.name);
        return true;
      case Action::jump_sender:
      case Action::jump_receiver: {
        n.sick = true;
        ++n.disturbances;
        auto const ahead =
            drawn_us(random.between(std::uint64_t{1}, std::uint64_t{1} << random.between(1u, 36u)));
        n.clock_ahead = n.clock_ahead + ahead;
        s_.network->jump_clock(n.name, ahead);
        n.dirty = true;
        return true;
      }
      case Action::hold_copy:
      case Action::fail_copy:
      case Action::refuse_copy:
      case Action::slow_copy:
        n.sick = true;
        n.control->add(
            {.fault = static_cast<b10::copy::CopyFault>(static_cast<unsigned>(f.action) -
                                                        static_cast<unsigned>(Action::hold_copy)),
             .direction = f.step == Step::gather_started ? b10::copy::Direction::gather
                                                         : b10::copy::Direction::scatter});
        return true;
      case Action::cancel:
      case Action::revoke:
        return interfere(from, to, f.action == Action::cancel);
      case Action::drop:  // of a greeting
        n.sick = true;
        s_.network->lose_greetings(n.name, 1);
        s_.tally.hit(f.step, f.action);
        return true;
      case Action::fail_post:  // of a receive
        s_.network->fail_receive(1);
        return true;
      default:
        return false;
    }
  }
  /// The engine of one side ends a job of that pair.
  bool interfere(Index from, Index to, bool cancel) {
    for (Job* j : s_.open) {
      if (j->interfered || j->from != from || j->to != to) continue;
      j->interfered = true;
      if (cancel && j->transfer && !j->sender_gone) {
        j->transfer->cancel();
        s_.nodes[j->from]->dirty = true;
      } else {
        j->giving_up = s_.tick = true;
      }
      return true;
    }
    return false;
  }
  [[nodiscard]] static b10::transport::sim::MessageRule rule_of(Fault const& f,
                                                                bool corrupt_payload) {
    b10::sim::Random random(f.param);
    b10::transport::sim::MessageRule r;
    r.fault = static_cast<b10::transport::sim::MessageFault>(f.action);
    r.kind = kind_posted(f.step);
    r.skip = f.skip;
    r.delay =
        drawn_us(random.between(std::uint64_t{1}, std::uint64_t{1} << random.between(3u, 16u)));
    auto const short_bytes = random.chance(1, 2) ? 48u : 1200u;
    r.at = random.below(f.action == Action::truncate ? short_bytes : 1u << 16);
    bool const header_only = r.kind == b10::MessageKind::data && !corrupt_payload;
    if (f.action == Action::corrupt && header_only) r.at %= 64 * 8;
    return r;
  }

  Scene<Transceiver>& s_;
};

}  // namespace campaign
