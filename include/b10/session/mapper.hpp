#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <b10/outcome.hpp>
#include <b10/session/geometry.hpp>
#include <b10/unmet.hpp>

namespace b10::session {

/// A piece of a slot that moves: offsets within the sender's and the receiver's slot.
struct Fragment {
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  std::uint64_t bytes = 0;
  friend constexpr bool operator==(Fragment const&, Fragment const&) = default;
};

/// One rank's view of a group: what a mapper needs.
struct GroupAt {
  GroupGeometry const& group;
  RankPlace place{};
};

/// Which bytes of a slot go from one rank to another: computed once, at registration, then used for
/// each block pair. Laws: fragments stay inside both slots and do not overlap on either side; over
/// all senders of one receiver each byte of a common layer is covered exactly once. A mapper that
/// does not fit the two ranks throws Error{invalid_request}.
template <class M>
concept Mapper = (std::constructible_from<M, GroupAt, GroupAt> &&
                  requires(M const& m) {
                    { m.fragments() } -> std::convertible_to<std::span<Fragment const>>;
                    { M::name } -> std::convertible_to<std::string_view>;
                  }) ||
                 unmet<
                     "add: a constructor (GroupAt source, GroupAt destination), fragments() "
                     "and a name">;

/// Heads that `source` sends to `destination`: both hold them, and of the destination's peers that
/// hold the same head the lowest rank is elected. May be empty: a silent writer.
[[nodiscard]] inline std::vector<std::uint32_t> heads_sent(GroupAt source, GroupAt destination) {
  std::vector<std::uint32_t> heads;
  auto const peers = tp_peers(destination.place, source.place.tp_size);
  auto const rank = source.place.tp_rank;
  if (rank < peers.first || rank >= peers.end) return heads;
  auto const total = source.group.heads_total;
  auto const wanted = heads_of(total, destination.place);
  auto const held = heads_of(total, source.place);
  for (auto head = held.first; head < held.end(); ++head) {
    auto const elected = std::max(peers.first, first_holder(total, source.place.tp_size, head));
    if (wanted.holds(head) && elected == rank) heads.push_back(head);
  }
  return heads;
}

namespace detail {

/// Appends a fragment, or lengthens the last one if they touch on both sides.
inline void append(std::vector<Fragment>& out, Fragment f) {
  if (!out.empty() && out.back().source + out.back().bytes == f.source &&
      out.back().destination + out.back().bytes == f.destination)
    out.back().bytes += f.bytes;
  else
    out.push_back(f);
}

/// Fragments of one part of one layer for heads [first, first + count).
inline void append_heads(std::vector<Fragment>& out, Fragment base, GroupAt source,
                         GroupAt destination, std::uint64_t head_bytes, HeadRange heads) {
  auto const from = heads_of(source.group.heads_total, source.place);
  auto const to = heads_of(source.group.heads_total, destination.place);
  bool const by_token =
      source.group.kind == GroupKind::paged && source.group.order == PageOrder::tokens_first;
  auto const rows = by_token ? source.group.tokens_per_block : 1u;
  auto const row = head_bytes / rows;  // bytes of one head in a row
  for (std::uint32_t i = 0; i < rows; ++i)
    append(out, {base.source + (std::uint64_t{i} * from.count + heads.first - from.first) * row,
                 base.destination + (std::uint64_t{i} * to.count + heads.first - to.first) * row,
                 heads.count * row});
}

}  // namespace detail

/// The general case: per layer, part and (tokens first) token the heads in common; layers in common
/// by global id. Pieces that touch on both sides are merged, so that equal ranks get one fragment.
class HeadSplit {
 public:
  static constexpr std::string_view name = "HeadSplit";
  HeadSplit(GroupAt source, GroupAt destination) {
    auto const why = incompatibility(source.group, destination.group);
    if (!why.empty()) throw Error(Reason::invalid_request, why);
    auto const heads = heads_sent(source, destination);
    if (heads.empty()) return;
    HeadRange const run{heads.front(), static_cast<std::uint32_t>(heads.size())};
    auto const from = heads_of(source.group.heads_total, source.place).count;
    auto const to = heads_of(source.group.heads_total, destination.place).count;
    auto const parts = source.group.parts();
    std::uint64_t head_bytes = 0;
    for (auto const bytes : parts) head_bytes += bytes;
    for (std::size_t d = 0; d < destination.group.layers.size(); ++d)
      for (std::size_t s = 0; s < source.group.layers.size(); ++s) {
        if (source.group.layers[s] != destination.group.layers[d]) continue;
        Fragment at{s * head_bytes * from, d * head_bytes * to, 0};
        for (auto const bytes : parts) {
          detail::append_heads(fragments_, at, source, destination, bytes, run);
          at.source += bytes * from;
          at.destination += bytes * to;
        }
      }
  }
  [[nodiscard]] std::span<Fragment const> fragments() const noexcept { return fragments_; }

 private:
  std::vector<Fragment> fragments_{};
};
static_assert(Mapper<HeadSplit>);

/// Same heads on both ranks, layers of one a run of the other's: one contiguous piece.
class HeadMatch {
 public:
  static constexpr std::string_view name = "HeadMatch";
  HeadMatch(GroupAt source, GroupAt destination) : all_(source, destination) {
    if (all_.fragments().size() > 1)
      throw Error(Reason::invalid_request,
                  "HeadMatch needs equal heads and one run of common layers; these ranks have " +
                      std::to_string(all_.fragments().size()) + " pieces: use HeadSplit");
  }
  [[nodiscard]] std::span<Fragment const> fragments() const noexcept { return all_.fragments(); }

 private:
  HeadSplit all_;
};
static_assert(Mapper<HeadMatch>);

/// Same heads and layers: the whole slot.
class Identity {
 public:
  static constexpr std::string_view name = "Identity";
  Identity(GroupAt source, GroupAt destination) : all_(source, destination) {
    Fragment const whole{0, 0, slot_bytes(source.group, source.place)};
    if (all_.fragments().size() != 1 || all_.fragments()[0] != whole ||
        slot_bytes(destination.group, destination.place) != whole.bytes)
      throw Error(Reason::invalid_request,
                  "Identity needs equal layers and heads on both ranks: use HeadSplit");
  }
  [[nodiscard]] std::span<Fragment const> fragments() const noexcept { return all_.fragments(); }

 private:
  HeadMatch all_;
};
static_assert(Mapper<Identity>);

}  // namespace b10::session
