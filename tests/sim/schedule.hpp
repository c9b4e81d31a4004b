#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/sim/random.hpp>
#include <b10/sim/timeline.hpp>
#include <b10/transport/sim/model.hpp>

/// What goes wrong in a run, and when: faults aimed at the n-th time that a step of the protocol
/// happens. All of it is drawn before the run starts, so that any part of it can be left out.
namespace campaign {

using b10::to_integer;

/// Steps of the protocol, in the order in which a transfer takes them.
enum class Step : std::uint8_t {
  connect_posted,
  link_up,
  link_down,
  control_posted,
  control_arrived,
  descriptors_posted,
  descriptors_arrived,
  receive_posted,
  ready_posted,
  ready_landed,
  places_posted,
  places_arrived,
  gather_started,
  gather_moving,
  gather_ended,
  data_posted,
  data_arrived,
  data_early,
  data_landing,
  data_landed,
  data_late,
  scatter_started,
  scatter_moving,
  scatter_ended,
  result_posted,
  result_landed,
  abort_posted,
  abort_arrived,
};
inline constexpr std::string_view step_names[] = {
    "connect posted",   "link up",           "link down",       "CONTROL posted", "CONTROL arrived",
    "DESCRIPT. posted", "DESCRIPT. arrived", "receive posted",  "READY posted",   "READY landed",
    "PLACES posted",    "PLACES arrived",    "gather started",  "gather moving",  "gather ended",
    "DATA posted",      "DATA arrived",      "DATA unexpected", "DATA landing",   "DATA landed",
    "DATA late",        "scatter started",   "scatter moving",  "scatter ended",  "RESULT posted",
    "RESULT landed",    "ABORT posted",      "ABORT arrived"};
inline constexpr std::size_t step_count = std::size(step_names);
static_assert(step_count == static_cast<std::size_t>(Step::abort_arrived) + 1);

enum class Action : std::uint8_t {
  drop,
  delay,
  duplicate,
  reorder,
  truncate,
  corrupt,
  fail_post,  // up to here: the message that is posted
  hold_copy,
  fail_copy,
  refuse_copy,
  slow_copy,  // up to here: the copy that starts
  stop_sender,
  stop_receiver,
  kill_sender,
  kill_receiver,
  cut,
  jump_sender,
  jump_receiver,
  cancel,
  revoke,
};
inline constexpr std::string_view action_names[] = {
    "drop",   "delay", "dup",     "reorder", "trunc",  "corrupt", "no post",
    "hold",   "fail",  "refuse",  "slow",    "stop s", "stop r",  "kill s",
    "kill r", "cut",   "clock s", "clock r", "cancel", "revoke"};
inline constexpr std::size_t action_count = std::size(action_names);
static_assert(action_count == static_cast<std::size_t>(Action::revoke) + 1);

[[nodiscard]] constexpr bool is_message_fault(Action a) { return a <= Action::fail_post; }
[[nodiscard]] constexpr bool is_copy_fault(Action a) {
  return a >= Action::hold_copy && a <= Action::slow_copy;
}
/// The kind of message that is posted in this step.
[[nodiscard]] constexpr std::optional<b10::MessageKind> kind_posted(Step s) {
  switch (s) {
    case Step::control_posted:
      return b10::MessageKind::control;
    case Step::descriptors_posted:
      return b10::MessageKind::descriptors;
    case Step::ready_posted:
      return b10::MessageKind::ready;
    case Step::places_posted:
      return b10::MessageKind::places;
    case Step::data_posted:
      return b10::MessageKind::data;
    case Step::result_posted:
      return b10::MessageKind::result;
    case Step::abort_posted:
      return b10::MessageKind::abort;
    default:
      return std::nullopt;
  }
}
/// Why the fault cannot strike at that step; empty: it can.
[[nodiscard]] constexpr std::string_view why_never(Step s, Action a) {
  if (is_message_fault(a)) {
    if (kind_posted(s)) return {};
    if (s == Step::receive_posted)
      return a == Action::fail_post ? "" : "a receive is no message: it can only fail to be posted";
    if (s == Step::connect_posted)
      return a == Action::drop ? ""
                               : "a greeting goes over a stream: whole, in order, or not at all";
    return "a message is struck when it is posted, and shows it at the later steps";
  }
  if (is_copy_fault(a) && s != Step::gather_started && s != Step::scatter_started)
    return "a copy is struck when it starts, and shows it at the later steps";
  return {};
}
[[nodiscard]] constexpr bool can_occur(Step s, Action a) { return why_never(s, a).empty(); }

/// The step that an event of the simulation is.
[[nodiscard]] inline std::optional<Step> step_of(b10::sim::Event const& e) {
  using b10::MessageKind;
  using b10::sim::What;
  auto const of_kind =
      [&](std::initializer_list<std::pair<MessageKind, Step>> steps) -> std::optional<Step> {
    for (auto const& [kind, step] : steps)
      if (e.name && e.name->kind == kind) return step;
    return std::nullopt;
  };
  using K = MessageKind;
  switch (e.what) {
    case What::connect_posted:
      return Step::connect_posted;
    case What::link_up:
      return Step::link_up;
    case What::link_down:
      return Step::link_down;
    case What::received:
      return Step::receive_posted;
    case What::posted:
      return of_kind({{K::control, Step::control_posted},
                      {K::descriptors, Step::descriptors_posted},
                      {K::ready, Step::ready_posted},
                      {K::places, Step::places_posted},
                      {K::data, Step::data_posted},
                      {K::result, Step::result_posted},
                      {K::abort, Step::abort_posted}});
    case What::arrived:
      return of_kind({{K::control, Step::control_arrived},
                      {K::descriptors, Step::descriptors_arrived},
                      {K::places, Step::places_arrived},
                      {K::data, Step::data_arrived},
                      {K::abort, Step::abort_arrived}});
    case What::unexpected:
      return of_kind({{K::data, Step::data_early}});
    case What::landing:
      return of_kind({{K::data, Step::data_landing}});
    case What::landed:
      return of_kind({{K::ready, Step::ready_landed},
                      {K::data, Step::data_landed},
                      {K::result, Step::result_landed}});
    case What::late:
      return of_kind({{K::data, Step::data_late}});
    case What::gather_started:
      return Step::gather_started;
    case What::gather_moving:
      return Step::gather_moving;
    case What::gather_ended:
      return Step::gather_ended;
    case What::scatter_started:
      return Step::scatter_started;
    case What::scatter_moving:
      return Step::scatter_moving;
    case What::scatter_ended:
      return Step::scatter_ended;
    default:
      return std::nullopt;
  }
}
/// Whether the node of the step's event is the receiver of the transfer, rather than its sender.
[[nodiscard]] constexpr bool is_at_receiver(Step s) {
  switch (s) {
    case Step::control_arrived:
    case Step::descriptors_arrived:
    case Step::ready_posted:
    case Step::places_posted:
    case Step::data_arrived:
    case Step::data_early:
    case Step::data_landing:
    case Step::data_landed:
    case Step::data_late:
    case Step::scatter_started:
    case Step::scatter_moving:
    case Step::scatter_ended:
    case Step::result_posted:
    case Step::abort_arrived:
      return true;
    default:
      return false;
  }
}

struct Fault {
  Step step{};
  Action action{};
  std::uint32_t skip = 0;   ///< so many times the step happens unharmed first
  std::uint64_t param = 0;  ///< random bits: how late, how short, which bit, how long
};

[[nodiscard]] inline std::string to_string(Fault const& f) {
  return std::string(action_names[static_cast<std::size_t>(f.action)]) + " at \"" +
         std::string(step_names[static_cast<std::size_t>(f.step)]) + "\" no. " +
         std::to_string(f.skip + 1) + " (param " + std::to_string(f.param) + ")";
}

/// How often a step happens for each transfer, roughly: so that faults find one.
[[nodiscard]] constexpr std::uint32_t times_per_job(Step s) {
  switch (s) {
    case Step::receive_posted:
      return 4;
    case Step::gather_started:
    case Step::gather_moving:
    case Step::gather_ended:
    case Step::data_posted:
    case Step::data_arrived:
    case Step::data_landed:
    case Step::scatter_started:
    case Step::scatter_moving:
    case Step::scatter_ended:
      return 2;
    default:
      return 1;
  }
}
/// Steps that happen seldom, in a run: they are aimed at low. 0: not seldom.
[[nodiscard]] constexpr std::uint32_t rare_times(Step s) {
  switch (s) {
    case Step::connect_posted:
    case Step::link_up:
      return 40;
    case Step::link_down:
    case Step::descriptors_posted:
    case Step::descriptors_arrived:
    case Step::data_early:
    case Step::data_late:
    case Step::abort_posted:
    case Step::abort_arrived:
      return 6;
    default:
      return 0;
  }
}
[[nodiscard]] constexpr bool needs_long_lists(Step s) {
  return s == Step::descriptors_posted || s == Step::descriptors_arrived;
}
[[nodiscard]] constexpr bool needs_shared_staging(Step s) {
  return s == Step::places_posted || s == Step::places_arrived;
}

[[nodiscard]] inline Fault aim_fault(b10::sim::Random& random, Step step, Action action,
                                     std::uint32_t jobs) {
  auto const rare = rare_times(step);
  auto const skip = random.below(rare > 0 ? rare : jobs * times_per_job(step));
  return {step, action, skip, random.next()};
}
[[nodiscard]] inline Fault draw_fault(b10::sim::Random& random, std::uint32_t jobs) {
  for (;;) {
    auto const step = static_cast<Step>(random.below(step_count));
    auto const action = static_cast<Action>(random.below(action_count));
    // Long descriptor lists are costly to make, so fewer faults are aimed at them.
    if (!can_occur(step, action) || (needs_long_lists(step) && !random.chance(1, 4))) continue;
    return aim_fault(random, step, action, jobs);
  }
}

}  // namespace campaign
