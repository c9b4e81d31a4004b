#pragma once

#include <string_view>

#include <b10/completion.hpp>

namespace b10::completion {

/// Success means that the transport has taken the bytes, as in v1 transceivers: there is no RESULT,
/// so the sender never learns whether anything landed. It exists for comparison. Do not use it;
/// completion::CopyEvent is the reference.
struct SendComplete {
  static constexpr std::string_view name = "completion::SendComplete";
  static constexpr bool proves_landing = false;
};

static_assert(Completion<SendComplete>, "completion::SendComplete must model b10::Completion");

}  // namespace b10::completion
