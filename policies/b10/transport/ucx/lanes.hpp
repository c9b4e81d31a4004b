#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <ucp/api/ucp.h>

#include <b10/transport/ucx/options.hpp>

namespace b10::transport::ucx {

/// "tcp/lo" and the like, out of the text of ucp_ep_print_info: `#  lane[0]:  2:tcp/lo.0 md[1]
/// ...`. Sorted, each once.
[[nodiscard]] inline std::vector<std::string> parse_lanes(std::string_view info) {
  std::vector<std::string> out;
  while (!info.empty()) {
    auto const end = std::min(info.find('\n'), info.size());
    auto line = info.substr(0, end);
    info.remove_prefix(std::min(end + 1, info.size()));
    auto const lane = line.find("lane[");
    if (lane == std::string_view::npos) continue;
    line.remove_prefix(lane);
    auto const slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    auto const first = line.find_last_of(" :", slash);
    auto const last = std::min(line.find_first_of(" \t", slash), line.size());
    auto name = line.substr(first + 1, last - first - 1);
    // the path index behind the device
    if (auto const dot = name.rfind('.'); dot != std::string_view::npos) name = name.substr(0, dot);
    out.emplace_back(name);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The lanes an endpoint really uses; empty if UCX does not tell.
[[nodiscard]] inline std::vector<std::string> lanes_of(ucp_ep_h endpoint) {
#if UCP_API_VERSION >= UCP_VERSION(1, 14)
  ucp_transport_entry_t entries[16] = {};
  ucp_ep_attr_t attr{};
  attr.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
  attr.transports.entries = entries;
  attr.transports.num_entries = 16;
  attr.transports.entry_size = sizeof entries[0];
  if (ucp_ep_query(endpoint, &attr) != UCS_OK) return {};
  std::vector<std::string> out;
  for (unsigned i = 0; i < attr.transports.num_entries; ++i) {
    out.push_back(std::string(entries[i].transport_name) + "/" + entries[i].device_name);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
#else
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = open_memstream(&text, &size);
  if (!stream) return {};
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  auto out = parse_lanes(std::string_view(text, size));
  std::free(text);
  return out;
#endif
}

/// Empty if every lane is one that `wire` and `device` allow, else a sentence. What is not on the
/// list is refused, known or not: a lane that keeps writing after its worker is gone defeats
/// everything else.
[[nodiscard]] inline std::string refuse_lanes(std::vector<std::string> const& lanes, Wire wire,
                                              std::string const& device) {
  auto const allowed = std::string(to_string(wire)) + "/" + device;
  if (lanes.empty())
    return "UCX does not tell which lanes the endpoint uses; allowed is " + allowed;
  for (auto const& lane : lanes) {
    if (lane != allowed) {
      return "the endpoint uses the lane " + lane + ", allowed is only " + allowed +
             ": Options::wire and Options::net_device choose";
    }
  }
  return {};
}

}  // namespace b10::transport::ucx
