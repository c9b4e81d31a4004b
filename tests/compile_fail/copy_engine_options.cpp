// expect-error: add: a copyable Options type, and a constructor from (Options const&, std::uint64_t
#include "complete.hpp"

struct Incomplete : complete::CopyEngine {
  struct Options {
    std::unique_ptr<int> only_one;
  };
};
static_assert(b10::CopyEngine<Incomplete>);
