#pragma once

// The one place that knows which Catch2 the tests use.
#include <catch2/catch.hpp>
