#pragma once

#include <string_view>

#include <b10/completion.hpp>

#include "support/catch.hpp"

namespace laws {

/// What can be said of a model of b10::Completion alone; its real law (no RESULT before every copy
/// event) is a law of the pipelines that follow it.
template <b10::Completion C>
void completion() {
  CHECK(std::string_view(C::name).starts_with("completion::"));
}

}  // namespace laws
