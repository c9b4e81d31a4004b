#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
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
  control_posted,
  control_arrived,
  descriptors_posted,
  descriptors_arrived,
  receive_posted,
  ready_posted,
  ready_landed,
  gather_started,
  gather_moving,
  gather_ended,
  data_posted,
  data_arrived,
  data_landing,
  data_landed,
  scatter_started,
  scatter_moving,
  scatter_ended,
  result_posted,
  result_landed,
  abort_posted,
  abort_arrived,
};
inline constexpr std::string_view step_names[] = {
    "connect posted",    "link up",         "CONTROL posted", "CONTROL arrived", "DESCRIPT. posted",
    "DESCRIPT. arrived", "receive posted",  "READY posted",   "READY landed",    "gather started",
    "gather moving",     "gather ended",    "DATA posted",    "DATA arrived",    "DATA landing",
    "DATA landed",       "scatter started", "scatter moving", "scatter ended",   "RESULT posted",
    "RESULT landed",     "ABORT posted",    "ABORT arrived"};
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
/// Whether the fault makes sense there.
[[nodiscard]] constexpr bool can_occur(Step s, Action a) {
  if (is_message_fault(a)) {
    if (s == Step::receive_posted) return a == Action::fail_post;
    if (s == Step::connect_posted) return a == Action::drop;
    return kind_posted(s).has_value();
  }
  if (is_copy_fault(a)) return s == Step::gather_started || s == Step::scatter_started;
  return true;
}

/// The step that an event of the simulation is.
[[nodiscard]] inline std::optional<Step> step_of(b10::sim::Event const& e) {
  using b10::MessageKind;
  using b10::sim::What;
  auto const of_kind = [&](Step control, Step ready, Step result, Step data, Step descriptors,
                           Step abort) -> std::optional<Step> {
    if (!e.name) return std::nullopt;
    switch (e.name->kind) {
      case MessageKind::control:
        return control;
      case MessageKind::ready:
        return ready;
      case MessageKind::result:
        return result;
      case MessageKind::data:
        return data;
      case MessageKind::descriptors:
        return descriptors;
      case MessageKind::abort:
        return abort;
      default:
        return std::nullopt;
    }
  };
  bool const data = e.name && e.name->kind == MessageKind::data;
  bool const tagged =
      data ||
      (e.name && (e.name->kind == MessageKind::ready || e.name->kind == MessageKind::result));
  switch (e.what) {
    case What::connect_posted:
      return Step::connect_posted;
    case What::link_up:
      return Step::link_up;
    case What::received:
      return Step::receive_posted;
    case What::posted:
      return of_kind(Step::control_posted, Step::ready_posted, Step::result_posted,
                     Step::data_posted, Step::descriptors_posted, Step::abort_posted);
    case What::arrived:
      if (tagged && !data) return std::nullopt;
      return of_kind(Step::control_arrived, {}, {}, Step::data_arrived, Step::descriptors_arrived,
                     Step::abort_arrived);
    case What::landing:
      return data ? std::optional(Step::data_landing) : std::nullopt;
    case What::landed:
      if (!tagged) return std::nullopt;
      return of_kind({}, Step::ready_landed, Step::result_landed, Step::data_landed, {}, {});
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
/// Steps that happen seldom, in a run: they are aimed at low.
[[nodiscard]] constexpr bool is_rare(Step s) {
  return s == Step::connect_posted || s == Step::link_up || s == Step::descriptors_posted ||
         s == Step::descriptors_arrived || s == Step::abort_posted || s == Step::abort_arrived;
}

[[nodiscard]] constexpr std::uint32_t rare_times(Step s) {
  return s == Step::connect_posted || s == Step::link_up ? 40 : 6;
}

[[nodiscard]] inline Fault draw_fault(b10::sim::Random& random, std::uint32_t jobs) {
  for (;;) {
    Fault f;
    f.step = static_cast<Step>(random.below(step_count));
    f.action = static_cast<Action>(random.below(action_count));
    f.skip = is_rare(f.step) ? random.below(rare_times(f.step))
                             : random.below(jobs * times_per_job(f.step));
    f.param = random.next();
    // Long descriptor lists are costly to make, so fewer faults are aimed at them.
    bool const costly = f.step == Step::descriptors_posted || f.step == Step::descriptors_arrived;
    if (can_occur(f.step, f.action) && (!costly || random.chance(1, 4))) return f;
  }
}

}  // namespace campaign
