#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/block_table.hpp>
#include <b10/session/ids.hpp>
#include <b10/types.hpp>

namespace b10::session {

/// Within a page: [heads][tokens][head size] or [tokens][heads][head size].
enum class PageOrder : std::uint8_t { heads_first, tokens_first };
enum class GroupKind : std::uint8_t {
  paged,  ///< a slot holds tokens_per_block tokens
  state,  ///< a slot holds one request's recurrent state
};

/// One layer group as the whole model sees it, with the layers that one rank holds of it. A slot is
/// [layers][parts][heads of the rank][bytes of a head]; parts are K and V (one with MLA), or the
/// sections of a state.
struct GroupGeometry {
  GroupKind kind = GroupKind::paged;
  std::vector<LayerId> layers{};  ///< held by this rank, global ids, in slot order
  bool mla = false;  ///< one latent vector a token, the same on every rank; heads_total is 1
  std::uint32_t heads_total = 0;  ///< KV heads of the model
  std::uint32_t head_size = 0;    ///< [elements]
  std::uint32_t element_bytes = 0;
  std::uint32_t tokens_per_block = 0;
  std::uint64_t window = 0;  ///< [tokens], 0: full attention
  PageOrder order = PageOrder::heads_first;
  std::vector<std::uint64_t> section_bytes{};  ///< state: bytes of one head, by section

  [[nodiscard]] BlockShape blocks() const noexcept { return {tokens_per_block, window}; }
  /// Bytes of one head, by part.
  [[nodiscard]] std::vector<std::uint64_t> parts() const {
    if (kind == GroupKind::state) return section_bytes;
    return std::vector<std::uint64_t>(mla ? 1 : 2,
                                      std::uint64_t{tokens_per_block} * head_size * element_bytes);
  }
  friend bool operator==(GroupGeometry const&, GroupGeometry const&) = default;
};

/// Where a rank stands. Of two ranks that talk, one TP size divides
/// the other.
struct RankPlace {
  std::uint32_t tp_size = 1;
  std::uint32_t tp_rank = 0;
  friend bool operator==(RankPlace const&, RankPlace const&) = default;
};

/// KV heads of one rank. With more ranks than heads each head is on tp_size / heads ranks.
struct HeadRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  [[nodiscard]] constexpr std::uint32_t end() const noexcept { return first + count; }
  [[nodiscard]] constexpr bool holds(std::uint32_t head) const noexcept {
    return first <= head && head < end();
  }
  friend constexpr bool operator==(HeadRange const&, HeadRange const&) = default;
};

/// Throws Error{invalid_request} if heads cannot be spread evenly.
[[nodiscard]] inline HeadRange heads_of(std::uint32_t heads_total, RankPlace place) {
  auto const size = place.tp_size;
  if (heads_total == 0 || size == 0 || place.tp_rank >= size ||
      (heads_total % size != 0 && size % heads_total != 0))
    throw Error(Reason::invalid_request,
                std::to_string(heads_total) + " heads over TP " + std::to_string(size) + " (rank " +
                    std::to_string(place.tp_rank) + "): one must be a multiple of the other");
  if (heads_total >= size) {
    auto const each = heads_total / size;
    return {place.tp_rank * each, each};
  }
  return {place.tp_rank / (size / heads_total), 1};
}

/// The lowest rank of `tp_size` that holds a head; both as heads_of() accepts them.
[[nodiscard]] constexpr std::uint32_t first_holder(std::uint32_t heads_total, std::uint32_t tp_size,
                                                   std::uint32_t head) noexcept {
  return heads_total >= tp_size ? head / (heads_total / tp_size) : head * (tp_size / heads_total);
}

/// Ranks [first, end).
struct RankRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  friend constexpr bool operator==(RankRange const&, RankRange const&) = default;
};

/// TP ranks of a group of `peer_size` that the rank talks to. Throws Error{invalid_request} if
/// neither size divides the other.
[[nodiscard]] inline RankRange tp_peers(RankPlace own, std::uint32_t peer_size) {
  auto const s = own.tp_size, p = peer_size, r = own.tp_rank;
  if (s == 0 || p == 0 || (s % p != 0 && p % s != 0))
    throw Error(Reason::invalid_request, "TP " + std::to_string(s) + " here and TP " +
                                             std::to_string(p) +
                                             " at the peer: one must divide the other");
  if (s <= p) return {r * (p / s), (r + 1) * (p / s)};
  return {r / (s / p), r / (s / p) + 1};
}

/// PP ranks whose layers intersect those of `rank`. `own` and `peer`: layers of each stage.
[[nodiscard]] inline RankRange pp_peers(std::vector<std::uint32_t> const& own, std::uint32_t rank,
                                        std::vector<std::uint32_t> const& peer) {
  auto const first = std::accumulate(own.begin(), own.begin() + rank, std::uint32_t{0});
  auto const end = first + own.at(rank);
  RankRange out;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < peer.size(); ++i) {
    bool const meets = at < end && first < at + peer[i];
    if (meets && out.end == 0) out.first = i;
    if (meets) out.end = i + 1;
    at += peer[i];
  }
  return out;
}

/// Bytes of one slot of this rank.
[[nodiscard]] inline std::uint64_t slot_bytes(GroupGeometry const& group, RankPlace place) {
  std::uint64_t head = 0;
  for (auto const bytes : group.parts()) head += bytes;
  return head * heads_of(group.heads_total, place).count * group.layers.size();
}

/// A layer group's memory: slot i begins at base + i x stride. The stride may exceed slot_bytes.
struct Pool {
  std::uint64_t base = 0;
  std::uint64_t stride = 0;
  std::uint32_t slots = 0;
  Device device = Device::host;
  friend bool operator==(Pool const&, Pool const&) = default;
};

/// Whether both groups hold some layer in common.
[[nodiscard]] inline bool share_a_layer(GroupGeometry const& a, GroupGeometry const& b) {
  for (auto const layer : a.layers)
    for (auto const other : b.layers)
      if (layer == other) return true;
  return false;
}

namespace detail {

inline void differs(std::string& why, char const* what, std::uint64_t here, std::uint64_t there) {
  if (why.empty() && here != there)
    why = std::string(what) + " differs: " + std::to_string(here) + " here, " +
          std::to_string(there) + " at the peer";
}
inline void differs(std::string& why, char const* what, char const* here, char const* there) {
  if (why.empty() && here != there)
    why = std::string(what) + " differs: " + here + " here, " + there + " at the peer";
}

}  // namespace detail

/// Empty if blocks of the two can be mapped, else a sentence with both values. For groups that
/// share a layer.
[[nodiscard]] inline std::string incompatibility(GroupGeometry const& here,
                                                 GroupGeometry const& there) {
  static constexpr char const* kinds[] = {"paged", "state"};
  static constexpr char const* latent[] = {"K and V", "MLA"};
  static constexpr char const* orders[] = {"heads first", "tokens first"};
  std::string why;
  using detail::differs;
  differs(why, "kind of group", kinds[to_integer(here.kind)], kinds[to_integer(there.kind)]);
  differs(why, "attention", latent[here.mla], latent[there.mla]);
  differs(why, "number of KV heads", here.heads_total, there.heads_total);
  if (here.kind == GroupKind::paged) {
    differs(why, "element bytes", here.element_bytes, there.element_bytes);
    differs(why, "tokens per block", here.tokens_per_block, there.tokens_per_block);
    differs(why, "head size", here.head_size, there.head_size);
    differs(why, "window", here.window, there.window);
    differs(why, "page layout", orders[to_integer(here.order)], orders[to_integer(there.order)]);
  } else {
    differs(why, "number of state sections", here.section_bytes.size(), there.section_bytes.size());
    for (std::size_t i = 0; why.empty() && i < here.section_bytes.size(); ++i)
      differs(why, "state bytes per head", here.section_bytes[i], there.section_bytes[i]);
  }
  return why;
}

}  // namespace b10::session
