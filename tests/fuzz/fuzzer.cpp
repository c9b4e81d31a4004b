// The entry of libFuzzer; B10_FUZZ_TARGET says which target this program is of.
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::B10_FUZZ_TARGET.run(std::as_bytes(std::span{data, size}));
  return 0;
}
