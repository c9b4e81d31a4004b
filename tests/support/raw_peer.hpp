#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/epoll.h>

#include <b10/hello.hpp>
#include <b10/transport/ucx.hpp>

/// What the UCX transport tests share: a hello, options, and a peer that speaks the bootstrap
/// protocol by hand, rightly or wrongly.
namespace support {

namespace ucx = b10::transport::ucx;

inline b10::Hello hello(std::string name, std::uint64_t incarnation) {
  b10::Hello h;
  h.name = std::move(name);
  h.incarnation = {incarnation, ~incarnation};
  h.slice_bytes = 1 << 20;
  return h;
}

inline std::string const shared_key = "a shared secret of 32 characters";

inline ucx::Options options(ucx::Wire wire = ucx::Wire::tcp) {
  ucx::Options o;
  o.key = shared_key;
  o.wire = wire;
  return o;
}

class RawPeer {
 public:
  explicit RawPeer(std::string const& address)
      : epoll_(std::make_shared<ucx::Fd const>(epoll_create1(EPOLL_CLOEXEC))) {
    int error = 0;
    auto fd = ucx::start_connect(*ucx::SocketAddress::parse(address), error);
    socket = std::make_unique<ucx::BootstrapSocket>(std::move(fd), epoll_);
    socket->frames.allow(ucx::FrameStream::frame_bytes_max);
  }

  std::unique_ptr<ucx::BootstrapSocket> socket;
  ucx::Nonce nonce = ucx::random_nonce();
  std::optional<ucx::KeySchedule> keys{};

  /// Bytes that are no frame.
  void raw(std::span<std::byte const> bytes) {
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  }
  void put(ucx::FrameType type, std::span<std::byte const> body = {}) {
    socket->frames.put(type, body);
  }
  /// Moves bytes without waiting; the next frame, if there is one.
  std::optional<ucx::Frame> progress() {
    if (!pending_.empty()) {
      auto const n = ::send(socket->fd().get(), pending_.data(), pending_.size(), MSG_NOSIGNAL);
      if (n > 0) pending_.erase(pending_.begin(), pending_.begin() + n);
      if (n < 0 && errno != EAGAIN) pending_.clear();
    }
    socket->write();
    socket->ready = true;
    socket->read();
    return socket->frames.next();
  }
  [[nodiscard]] bool closed() const { return socket->ended(); }

  void greet(std::uint16_t version = b10::protocol_version) {
    put(ucx::FrameType::client_greet, ucx::Greet{version, nonce}.encode());
  }
  /// Answers the server's greeting with a proof of `key`, and secures the stream with it.
  void prove(ucx::Frame const& server_greet, std::string const& key = shared_key) {
    keys.emplace(key, nonce, ucx::Greet::decode(server_greet.body)->nonce);
    put(ucx::FrameType::client_proof, keys->proof(ucx::Role::client));
    socket->frames.secure(keys->frames(ucx::Role::client), keys->frames(ucx::Role::server));
  }

 private:
  std::shared_ptr<ucx::Fd const> epoll_;
  std::vector<std::byte> pending_{};
};

}  // namespace support
