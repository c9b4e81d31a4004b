#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <b10/types.hpp>

namespace b10 {

/// Bytes that a peer has sent beside transfers, see BasicTransceiver::notify.
struct Notification {
  std::string from{};  ///< Config::name of the peer
  PeerId peer{};
  std::vector<std::byte> bytes{};
};

}  // namespace b10
