// expect-error: add: static constexpr std::string_view name
#include "complete.hpp"

struct Incomplete : complete::TagScheme {
  void name();
};
static_assert(b10::TagScheme<Incomplete>);
