#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <sys/epoll.h>

#include <b10/transport/ucx/frames.hpp>
#include <b10/transport/ucx/tcp_socket.hpp>

namespace b10::transport::ucx {

/// One non-blocking TCP connection that speaks frames. Its address is known to an epoll set, so it
/// stays put; contacts and links hand it on by pointer. One thread.
class BootstrapSocket {
 public:
  BootstrapSocket(Fd fd, std::shared_ptr<Fd const> epoll)
      : fd_(std::move(fd)), epoll_(std::move(epoll)) {
    // Edge-triggered: a peer that floods cannot make a sleeping loop spin.
    epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    e.data.ptr = this;
    epoll_ctl(epoll_->get(), EPOLL_CTL_ADD, fd_.get(), &e);
  }
  ~BootstrapSocket() { close(); }
  BootstrapSocket(BootstrapSocket const&) = delete;
  BootstrapSocket& operator=(BootstrapSocket const&) = delete;

  /// Set from the epoll set: something may be read or written.
  bool ready = true;
  FrameStream frames{};

  [[nodiscard]] bool open() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// Why it ended; empty for an orderly end of the stream.
  [[nodiscard]] std::string const& error() const noexcept { return error_; }
  [[nodiscard]] Fd const& fd() const noexcept { return fd_; }
  /// What was written is still delivered, then the end of the stream.
  void close() noexcept {
    if (!fd_) return;
    // A child that was forked meanwhile holds a copy of the descriptor: without these two lines the
    // peer would see no end, and the epoll set would keep naming this object.
    epoll_ctl(epoll_->get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
    ::shutdown(fd_.get(), SHUT_RDWR);
    fd_.close();
  }

  /// Reads what may be read now, at most one frame of the allowed length; true if bytes came.
  /// `ready` stays set while there may be more.
  bool read() {
    bool any = false;
    while (open() && !ended_) {
      std::array<std::byte, 4096> buffer;
      auto const room = std::min(frames.room(), buffer.size());
      if (room == 0) return any;
      auto const n = ::recv(fd_.get(), buffer.data(), room, 0);
      if (n > 0) {
        frames.received(std::span(buffer).first(static_cast<std::size_t>(n)));
        any = true;
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      ready = false;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return any;
      end(n == 0 ? 0 : errno);
    }
    return any;
  }

  /// Sends what can be sent now.
  void write() {
    while (open() && !ended_ && !frames.to_send().empty()) {
      auto const out = frames.to_send();
      auto const n = ::send(fd_.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (n > 0) {
        frames.sent(static_cast<std::size_t>(n));
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      // What the peer said before it went may still lie in the receive queue: let read() find the
      // end behind it.
      ready = true;
      return;
    }
  }

 private:
  void end(int error) {
    ended_ = true;
    if (error != 0) error_ = errno_text(error);
  }

  Fd fd_;
  std::shared_ptr<Fd const> epoll_;
  bool ended_ = false;
  std::string error_{};
};

}  // namespace b10::transport::ucx
