// expect-error: add: static constexpr bool holds_views, holds_identities = ...
#include "complete.hpp"

struct Incomplete : complete::Quarantine {
  void holds_views();
};
static_assert(b10::Quarantine<Incomplete>);
