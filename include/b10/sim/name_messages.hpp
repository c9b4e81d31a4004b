#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <b10/core/wire.hpp>
#include <b10/sim/journal.hpp>

namespace b10::sim {

/// The Namer for B10's own messages: give it to the simulated network, so that faults can be aimed
/// at a kind and a chunk, and the journal can be read.
[[nodiscard]] inline std::optional<Name> name_messages(bool control,
                                                       std::span<std::byte const> bytes) noexcept {
  if (!control) {
    if (auto const d = wire::decode_data_header(bytes))
      return Name{MessageKind::data, d->transfer, d->chunk};
  }
  if (auto const h = wire::decode_header(bytes)) return Name{h->kind, h->transfer, {}};
  return std::nullopt;
}

}  // namespace b10::sim
