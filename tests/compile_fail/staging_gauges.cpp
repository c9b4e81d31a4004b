// expect-error: add: StagingGauges gauges() const noexcept and std::uint64_t slice_bytes() const
#include "complete.hpp"

struct Incomplete : complete::Staging {
  void gauges();
};
static_assert(b10::Staging<Incomplete>);
