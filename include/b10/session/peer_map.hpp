#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <b10/native_plane.hpp>
#include <b10/session/mapper.hpp>
#include <b10/session/messages.hpp>

namespace b10::session {

/// A local group and a peer's that share layers, and what of a slot goes from here to there.
struct GroupLink {
  GroupId local{};
  GroupId remote{};
  std::vector<Fragment> sent{};      ///< from a local slot to one of the peer; may be empty
  std::vector<Fragment> received{};  ///< from a slot of the peer to a local one
};

/// A registered peer: how to reach it, and the maps between its slots and ours.
struct PeerInfo {
  NodeId id{};
  PlaneRoute route{};
  NodeShape shape{};
  std::vector<std::byte> agent_descriptor{};
  std::vector<GroupLink> links{};
};

namespace detail {

[[nodiscard]] inline std::string settings_difference(std::vector<Setting> const& here,
                                                     std::vector<Setting> const& there) {
  auto const find = [](std::vector<Setting> const& list, std::string const& key) {
    for (auto const& s : list)
      if (s.key == key) return "\"" + s.value + "\"";
    return std::string("not set");
  };
  for (auto const* list : {&here, &there})
    for (auto const& s : *list)
      if (find(here, s.key) != find(there, s.key))
        return "setting " + s.key + " differs: " + find(here, s.key) + " here, " +
               find(there, s.key) + " at the peer";
  return {};
}

/// Empty if all of the pool's slots are addressable and hold a slot of this geometry, in which no
/// layer comes twice: two places of one layer would be written to the same bytes of a peer.
[[nodiscard]] inline std::string bad_pool(GroupShape const& g, RankPlace place) {
  auto layers = g.geometry.layers;
  std::sort(layers.begin(), layers.end());
  auto const twice = std::adjacent_find(layers.begin(), layers.end());
  if (twice != layers.end())
    return "layer " + std::to_string(to_integer(*twice)) + " comes twice in one group";
  auto const bytes = slot_bytes(g.geometry, place);
  auto const stride = std::to_string(g.pool.stride);
  if (g.pool.slots == 0 || g.pool.stride < bytes || bytes == 0)
    return "a pool of " + std::to_string(g.pool.slots) + " slots with a stride of " + stride +
           " bytes, a slot has " + std::to_string(bytes);
  if (g.pool.stride > (std::numeric_limits<std::uint64_t>::max() - g.pool.base) / g.pool.slots)
    return "a pool of " + std::to_string(g.pool.slots) + " slots of " + stride +
           " bytes wraps around 2^64";
  return {};
}

}  // namespace detail

/// Longest lists of a shape that is taken from a peer: what is done with them is not linear.
inline constexpr std::size_t settings_max = 256;
inline constexpr std::size_t groups_max = 256;
inline constexpr std::size_t layers_max = 4096;

/// Empty if sessions between the two can work, else a sentence that names both values.
[[nodiscard]] inline std::string incompatibility(NodeShape const& here, NodeShape const& there) {
  std::string why;
  auto const text = [&](char const* what, std::string const& a, std::string const& b) {
    if (why.empty() && a != b)
      why = std::string(what) + " differs: \"" + a + "\" here, \"" + b + "\" at the peer";
  };
  text("compatibility key", here.compat_key, there.compat_key);
  text("rank order", here.rank_order, there.rank_order);
  detail::differs(why, "AUX record bytes", here.aux_bytes, there.aux_bytes);
  if (why.empty() && there.settings.size() > settings_max)
    why = std::to_string(there.settings.size()) + " settings at the peer, the limit is " +
          std::to_string(settings_max);
  if (why.empty()) why = detail::settings_difference(here.settings, there.settings);
  if (!why.empty()) return why;
  if (there.groups.size() > groups_max)
    return std::to_string(there.groups.size()) + " groups at the peer, the limit is 256";
  try {
    (void)tp_peers(here.place, there.place.tp_size);
    for (auto const& g : there.groups) {
      if (g.geometry.layers.size() > layers_max)
        return std::to_string(g.geometry.layers.size()) + " layers at the peer, the limit is 4096";
      if (auto const bad = detail::bad_pool(g, there.place); !bad.empty())
        return "at the peer: " + bad;
      for (auto const& own : here.groups)
        if (share_a_layer(own.geometry, g.geometry))
          if (auto const bad = incompatibility(own.geometry, g.geometry); !bad.empty()) return bad;
    }
  } catch (Error const& e) {
    return e.what();
  }
  return {};
}

/// The maps between two compatible nodes; computed once, at registration.
[[nodiscard]] inline std::vector<GroupLink> link_groups(NodeShape const& here,
                                                        NodeShape const& there) {
  std::vector<GroupLink> links;
  for (std::size_t h = 0; h < here.groups.size(); ++h)
    for (std::size_t t = 0; t < there.groups.size(); ++t) {
      auto const& own = here.groups[h].geometry;
      auto const& other = there.groups[t].geometry;
      if (!share_a_layer(own, other)) continue;
      HeadSplit const out({own, here.place}, {other, there.place});
      HeadSplit const in({other, there.place}, {own, here.place});
      links.push_back({GroupId{static_cast<std::uint16_t>(h)},
                       GroupId{static_cast<std::uint16_t>(t)},
                       {out.fragments().begin(), out.fragments().end()},
                       {in.fragments().begin(), in.fragments().end()}});
    }
  return links;
}

}  // namespace b10::session
