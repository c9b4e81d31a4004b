#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <b10/outcome.hpp>

namespace b10::transport::ucx {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { close(); }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

[[nodiscard]] inline std::string errno_text(int error) { return std::strerror(error); }

/// A numeric IPv4 or IPv6 address with port. Names are not resolved: a resolver blocks without
/// limit.
class SocketAddress {
 public:
  /// "10.0.0.1:7000", "[fe80::1]:7000"; nullopt for anything else, names included.
  [[nodiscard]] static std::optional<SocketAddress> parse(std::string_view text) {
    auto const colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    auto const digits = text.substr(colon + 1);
    std::uint32_t port = 0;
    if (digits.empty() || digits.size() > 5) return std::nullopt;
    for (char const c : digits) {
      if (c < '0' || c > '9') return std::nullopt;
      port = port * 10 + static_cast<std::uint32_t>(c - '0');
    }
    if (port > 65535) return std::nullopt;
    std::string host(text.substr(0, colon));
    SocketAddress a;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
      a.v6().sin6_family = AF_INET6;
      a.v6().sin6_port = htons(static_cast<std::uint16_t>(port));
      if (inet_pton(AF_INET6, host.c_str(), &a.v6().sin6_addr) != 1) return std::nullopt;
    } else {
      a.v4().sin_family = AF_INET;
      a.v4().sin_port = htons(static_cast<std::uint16_t>(port));
      if (inet_pton(AF_INET, host.c_str(), &a.v4().sin_addr) != 1) return std::nullopt;
    }
    return a;
  }

  [[nodiscard]] std::string text() const {
    char host[INET6_ADDRSTRLEN] = {};
    if (storage_.ss_family == AF_INET6) {
      inet_ntop(AF_INET6, &v6().sin6_addr, host, sizeof host);
      return "[" + std::string(host) + "]:" + std::to_string(ntohs(v6().sin6_port));
    }
    inet_ntop(AF_INET, &v4().sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(v4().sin_port));
  }

  /// The interface that owns this address ("lo", "eth0"); empty if none does, as for a wildcard.
  [[nodiscard]] std::string device() const {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return {};
    std::string found;
    for (auto* i = list; i && found.empty(); i = i->ifa_next) {
      if (i->ifa_addr && same_host(*i->ifa_addr)) found = i->ifa_name;
    }
    freeifaddrs(list);
    // All of 127/8 is local although the interface lists only 127.0.0.1.
    bool const loopback = storage_.ss_family == AF_INET && ntohl(v4().sin_addr.s_addr) >> 24 == 127;
    return found.empty() && loopback ? "lo" : found;
  }

  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] sockaddr* raw() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }
  [[nodiscard]] sockaddr const* raw() const noexcept {
    return reinterpret_cast<sockaddr const*>(&storage_);
  }
  [[nodiscard]] socklen_t size() const noexcept {
    return storage_.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  static constexpr socklen_t capacity = sizeof(sockaddr_storage);

 private:
  sockaddr_in& v4() noexcept { return reinterpret_cast<sockaddr_in&>(storage_); }
  sockaddr_in const& v4() const noexcept { return reinterpret_cast<sockaddr_in const&>(storage_); }
  sockaddr_in6& v6() noexcept { return reinterpret_cast<sockaddr_in6&>(storage_); }
  sockaddr_in6 const& v6() const noexcept {
    return reinterpret_cast<sockaddr_in6 const&>(storage_);
  }
  bool same_host(sockaddr const& other) const noexcept {
    if (other.sa_family != storage_.ss_family) return false;
    if (storage_.ss_family == AF_INET6) {
      auto const& o = reinterpret_cast<sockaddr_in6 const&>(other);
      return std::memcmp(&o.sin6_addr, &v6().sin6_addr, sizeof o.sin6_addr) == 0;
    }
    return reinterpret_cast<sockaddr_in const&>(other).sin_addr.s_addr == v4().sin_addr.s_addr;
  }

  sockaddr_storage storage_{};
};

inline constexpr int socket_flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

inline void set_flag(int fd, int level, int option) noexcept {
  int const on = 1;
  setsockopt(fd, level, option, &on, sizeof on);
}

/// Bound and listening; throws Error that names the address.
[[nodiscard]] inline Fd listen_on(SocketAddress const& address) {
  Fd fd(::socket(address.family(), socket_flags, 0));
  // A restarted node must get its address back while old connections sit in TIME_WAIT.
  if (fd) set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  if (!fd || ::bind(fd.get(), address.raw(), address.size()) != 0 || ::listen(fd.get(), 128) != 0) {
    throw Error(Reason::invalid_request,
                "cannot listen on Options::listen = " + address.text() + ": " + errno_text(errno));
  }
  return fd;
}

[[nodiscard]] inline SocketAddress bound_address(Fd const& fd) noexcept {
  SocketAddress a;
  socklen_t size = SocketAddress::capacity;
  getsockname(fd.get(), a.raw(), &size);
  return a;
}

/// Started, not finished: the socket becomes writable, or its SO_ERROR tells. `error` is 0 or
/// errno.
[[nodiscard]] inline Fd start_connect(SocketAddress const& address, int& error) noexcept {
  Fd fd(::socket(address.family(), socket_flags, 0));
  error = 0;
  if (!fd || (::connect(fd.get(), address.raw(), address.size()) != 0 && errno != EINPROGRESS)) {
    error = errno;
    fd.close();
  } else {
    set_flag(fd.get(), IPPROTO_TCP, TCP_NODELAY);
  }
  return fd;
}

/// Empty if nobody waits or the process is out of descriptors; errno tells which.
[[nodiscard]] inline Fd accept_one(Fd const& listener, SocketAddress& from) noexcept {
  socklen_t size = SocketAddress::capacity;
  Fd fd(::accept4(listener.get(), from.raw(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) set_flag(fd.get(), IPPROTO_TCP, TCP_NODELAY);
  return fd;
}

[[nodiscard]] inline int take_socket_error(Fd const& fd) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace b10::transport::ucx
