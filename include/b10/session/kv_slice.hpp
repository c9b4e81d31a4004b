#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/ids.hpp>
#include <b10/session/pairing.hpp>

namespace b10::session {

/// One layer group's part of a slice: which blocks it covers, and where the sender has them.
struct GroupSlice {
  GroupId group{};
  OrdinalRange blocks{};        ///< empty: nothing of this group, which is no error
  BlockOrdinal first{};         ///< ordinal of slots[0]
  std::vector<SlotId> slots{};  ///< may reach past `blocks`; absent where nothing is computed
  [[nodiscard]] BlockRun run() const noexcept { return {first, slots}; }
};

/// One state group's slot (recurrent layers); moves once, with the last slice.
struct StateSlot {
  GroupId group{};
  SlotId slot = absent;
};

/// What TxSession::send takes: a chunk of the prompt that is computed, or will be when `ready`
/// fires. SourceReady is the agent's event type; a default one is ready.
template <class SourceReady>
struct KvSlice {
  SenderSliceId id{};
  TokenRange tokens{};
  bool is_last = false;
  std::vector<GroupSlice> groups{};
  std::vector<StateSlot> state{};  ///< with the last slice only
  SourceReady ready{};
};

/// Makes one group's part, for a chunk and for the final send alike: one look-up a block.
/// `slot_of(BlockOrdinal) -> SlotId` asks the engine's block manager.
template <class SlotOf>
[[nodiscard]] GroupSlice cut(GroupId group, OrdinalRange blocks, SlotOf&& slot_of) {
  GroupSlice slice{group, blocks, blocks.first, {}};
  slice.slots.reserve(blocks.size());
  for (auto i = blocks.first; i < blocks.end; i = BlockOrdinal{to_integer(i) + 1})
    slice.slots.push_back(slot_of(i));
  return slice;
}

}  // namespace b10::session
