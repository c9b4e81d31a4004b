// expect-error: add: Tag tag(MessageIdentity) const noexcept
#include "complete.hpp"

struct Incomplete : complete::TagScheme {
  b10::Tag tag(b10::MessageIdentity);
};
static_assert(b10::TagScheme<Incomplete>);
