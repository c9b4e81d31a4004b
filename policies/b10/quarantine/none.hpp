#pragma once

#include <string_view>

#include <b10/quarantine.hpp>
#include <b10/time.hpp>

namespace b10::quarantine {

/// Nothing sits out: after a failure views, tags and ids are used again at once, as in plain v1
/// transceivers. It exists for comparison: a late write meets staging that another transfer has
/// leased. Do not use it; quarantine::Ttl is the reference.
struct None {
  static constexpr std::string_view name = "quarantine::None";
  static constexpr bool holds_views = false;
  static constexpr bool holds_identities = false;
  static constexpr Sentence afterwards = Sentence::recycle;

  [[nodiscard]] constexpr Sentence sentence(Duration, bool) const noexcept {
    return Sentence::recycle;
  }
};

static_assert(Quarantine<None>, "quarantine::None must model b10::Quarantine");

}  // namespace b10::quarantine
