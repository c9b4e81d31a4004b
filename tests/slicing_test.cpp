#include <b10/slicing/chunked.hpp>
#include <b10/slicing/pipelined.hpp>
#include <b10/slicing/whole.hpp>

#include "laws/slicing.hpp"
#include "support/catch.hpp"

using namespace b10;

TEMPLATE_TEST_CASE("every slicing obeys the slicing laws", "[slicing]", slicing::Whole,
                   slicing::Chunked<1>, (slicing::Chunked<std::uint64_t{512} << 20>),
                   slicing::Pipelined<>, (slicing::Pipelined<1024, 2>)) {
  laws::slicing<TestType>();
}

TEST_CASE("Whole stages a buffer in one slice, one at a time", "[slicing]") {
  STATIC_REQUIRE(slicing::Whole::slice_bytes(1000) == 1000);
  STATIC_REQUIRE(slicing::Whole::depth == 1);
}

TEST_CASE("Chunked cuts at its size, one slice at a time", "[slicing]") {
  STATIC_REQUIRE(slicing::Chunked<256>::slice_bytes(1024) == 256);
  STATIC_REQUIRE(slicing::Chunked<256>::slice_bytes(255) == 255);
  STATIC_REQUIRE(slicing::Chunked<256>::depth == 1);
}

TEST_CASE("Pipelined defaults to four slices of 4 MiB", "[slicing]") {
  STATIC_REQUIRE(slicing::Pipelined<>::slice_bytes(std::uint64_t{512} << 20) == 4u << 20);
  STATIC_REQUIRE(slicing::Pipelined<>::slice_bytes(4096) == 4096);
  STATIC_REQUIRE(slicing::Pipelined<>::depth == 4);
}
