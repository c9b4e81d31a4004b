#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/messages.hpp>
#include <b10/session/session_services.hpp>
#include <b10/time.hpp>

namespace b10::session {

/// What an engine may set; the environment overrides it.
struct SessionSettings {
  bool pipelined = false;
  bool strict_blocks = false;
  bool early_prefix = false;
  Duration operation_limit = seconds(60);
  Duration session_limit = seconds(60);
  Duration early_limit = seconds(60);
  friend bool operator==(SessionSettings const&, SessionSettings const&) = default;
};

/// What the engine is, as far as pipelining needs to know.
struct EngineFacts {
  bool generation_first = true;  ///< decode blocks are allocated before prefill begins
  bool chunked_prefill = true;
  unsigned beam_width = 1;
  std::string backend = "b10";
  unsigned pp_size = 1;
  unsigned cp_size = 1;
  bool hybrid_manager = false;  ///< one block manager for attention and state together
};

/// One row of the schema. Exactly one member is set.
struct SettingField {
  // By name: nvcc writes members like these with parentheses that g++ then warns of.
  using Flag = bool SessionSettings::*;
  using Limit = Duration SessionSettings::*;

  std::string_view name;
  std::string_view environment;
  std::string_view meaning;
  bool both_sides;  ///< checked at registration: peers must agree
  Flag flag = nullptr;
  Limit limit = nullptr;
};

inline constexpr SettingField setting_fields[] = {
    {"pipelined", "B10_SESSION_PIPELINED", "send blocks while later chunks are computed", true,
     &SessionSettings::pipelined, nullptr},
    {"strict_blocks", "B10_SESSION_STRICT_BLOCKS", "chunk bounds must be block multiples", false,
     &SessionSettings::strict_blocks, nullptr},
    {"early_prefix", "B10_SESSION_EARLY_PREFIX", "send a reused prefix before the first forward",
     false, &SessionSettings::early_prefix, nullptr},
    {"operation_limit", "B10_SESSION_OPERATION_MS", "one transfer, from its submit", false, nullptr,
     &SessionSettings::operation_limit},
    {"session_limit", "B10_SESSION_LIMIT_MS",
     "sender: from the last chunk; receiver: from receive()", false, nullptr,
     &SessionSettings::session_limit},
    {"early_limit", "B10_SESSION_EARLY_MS", "a message may come this long before its session",
     false, nullptr, &SessionSettings::early_limit},
};

/// The seven things that pipelining needs; one sentence for each that is not so.
[[nodiscard]] inline std::vector<std::string> unmet_requirements(EngineFacts const& f) {
  std::vector<std::string> unmet;
  auto const need = [&](bool holds, std::string why) {
    if (!holds) unmet.push_back("pipelined needs " + std::move(why));
  };
  need(f.generation_first,
       "generation-first scheduling: decode's blocks must exist before prefill");
  need(f.chunked_prefill, "chunked prefill: without it there is one chunk and nothing overlaps");
  need(f.beam_width == 1, "beam width 1, it is " + std::to_string(f.beam_width));
  need(f.backend == "b10", "backend \"b10\", it is \"" + f.backend + "\"");
  need(f.pp_size == 1, "pipeline parallel size 1, it is " + std::to_string(f.pp_size));
  need(f.cp_size == 1, "context parallel size 1, it is " + std::to_string(f.cp_size));
  need(!f.hybrid_manager,
       "separate block managers: the hybrid one moves blocks while they are sent");
  return unmet;
}

/// Settings, overrides and facts brought together once, before anything depends on them; immutable.
class SessionConfig {
 public:
  /// `environment(name) -> optional<string>`. Throws Error{invalid_request}: an override that
  /// cannot be read, a limit that is not positive, or the first requirement that pipelining lacks.
  template <class Environment>
  SessionConfig(SessionSettings settings, EngineFacts const& facts, Environment&& environment)
      : settings_(overridden(settings, environment)) {
    for (auto const& f : setting_fields)
      if (f.limit && settings_.*f.limit <= Duration{})
        refuse(std::string(f.name) + " is " + std::to_string((settings_.*f.limit).ns) +
               " ns, it must be positive");
    if (!settings_.pipelined) return;
    if (auto const unmet = unmet_requirements(facts); !unmet.empty()) refuse(unmet.front());
  }

  [[nodiscard]] SessionSettings const& settings() const noexcept { return settings_; }
  [[nodiscard]] SessionTimes times() const noexcept {
    return {settings_.operation_limit, settings_.session_limit};
  }
  /// For NodeShape::settings: what a peer must have too.
  [[nodiscard]] std::vector<Setting> agreed() const {
    std::vector<Setting> list;
    for (auto const& f : setting_fields)
      if (f.both_sides) list.push_back({std::string(f.name), value(f, settings_)});
    return list;
  }
  /// One line a setting, as resolved.
  [[nodiscard]] std::string explain() const {
    std::string text;
    for (auto const& f : setting_fields)
      text += std::string(f.name) + " = " + value(f, settings_) + "\n";
    return text;
  }
  /// All settings: name, type, default, environment variable, which side, meaning.
  [[nodiscard]] static std::string schema() {
    std::string text;
    for (auto const& f : setting_fields)
      text += std::string(f.name) + " | " + (f.flag ? "flag" : "ms") + " | " + value(f, {}) +
              " | " + std::string(f.environment) + " | " +
              (f.both_sides ? "both sides" : "one side") + " | " + std::string(f.meaning) + "\n";
    return text;
  }

 private:
  [[noreturn]] static void refuse(std::string const& why) {
    throw Error(Reason::invalid_request, why);
  }
  [[nodiscard]] static std::string value(SettingField const& f, SessionSettings const& s) {
    if (f.flag) return s.*f.flag ? "1" : "0";
    return std::to_string((s.*f.limit).ns / 1'000'000);
  }
  template <class Environment>
  [[nodiscard]] static SessionSettings overridden(SessionSettings s, Environment&& environment) {
    for (auto const& f : setting_fields) {
      std::optional<std::string> const text = environment(f.environment);
      if (!text) continue;
      std::uint32_t number = 0;
      auto const* end = text->data() + text->size();
      auto const read = std::from_chars(text->data(), end, number);
      if (read.ec != std::errc{} || read.ptr != end || (f.flag && number > 1))
        refuse(std::string(f.environment) + " is \"" + *text + "\", it must be " +
               (f.flag ? "0 or 1" : "a number of milliseconds"));
      if (f.flag)
        s.*f.flag = number == 1;
      else
        s.*f.limit = milliseconds(number);
    }
    return s;
  }

  SessionSettings const settings_;
};

}  // namespace b10::session
