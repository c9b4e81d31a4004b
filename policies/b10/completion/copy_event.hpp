#pragma once

#include <string_view>

#include <b10/completion.hpp>

namespace b10::completion {

/// Success means that the bytes are in place: the receiver sends RESULT{ok} only after the event of
/// every destination copy has fired, and the sender reports landed only on that RESULT. The
/// reference. Use it always; it costs one short message per transfer.
struct CopyEvent {
  static constexpr std::string_view name = "completion::CopyEvent";
  static constexpr bool proves_landing = true;
};

static_assert(Completion<CopyEvent>, "completion::CopyEvent must model b10::Completion");

}  // namespace b10::completion
