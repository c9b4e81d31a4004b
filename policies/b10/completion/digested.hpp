#pragma once

#include <string_view>

#include <b10/completion.hpp>
#include <b10/completion/copy_event.hpp>

namespace b10::completion {

/// As completion::CopyEvent, and each chunk carries a digest (b10/digest.hpp) of the bytes that
/// were gathered; the receiver computes its own of the bytes that it scatters, and the transfer
/// fails with Reason::integrity unless all are equal. What a failed transfer has scattered is as
/// unusable as after any failure. Use it where networks, cables or memory are not trusted. Costs a
/// pass over each chunk on either side: 5 GB/s a core on the host (14 with AVX-512), next to
/// nothing on a GPU (bench/results/digest.md). Both peers must use it. Needs a copy engine that
/// computes digests.
struct Digested {
  static constexpr std::string_view name = "completion::Digested";
  static constexpr bool proves_landing = CopyEvent::proves_landing;
  static constexpr bool digests = true;
};

static_assert(Completion<Digested>, "completion::Digested must model b10::Completion");
static_assert(wants_digests<Digested> && !wants_digests<CopyEvent>);

}  // namespace b10::completion
