// Two processes that talk over a socket pair while they are not being measured.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace b10::bench {

/// One end. Every wait is bounded; a peer that has gone is an exception.
class Side {
 public:
  explicit Side(int fd) : fd_(fd) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(T const& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T get() {
    T value{};
    get_bytes(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void put_blob(std::span<std::byte const> blob) {
    put(blob.size());
    put_bytes(blob);
  }
  [[nodiscard]] std::vector<std::byte> get_blob() {
    std::vector<std::byte> blob(get<std::size_t>());
    get_bytes(blob);
    return blob;
  }
  [[nodiscard]] bool readable(int wait_ms) const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, wait_ms) > 0;
  }

 private:
  static constexpr int limit_ms = 60'000;

  void put_bytes(std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
      auto const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("the other process has gone");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void get_bytes(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      if (!readable(limit_ms)) throw std::runtime_error("the other process is silent");
      auto const n = ::recv(fd_, bytes.data(), bytes.size(), 0);
      if (n <= 0) throw std::runtime_error("the other process has gone");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

  int fd_;
};

/// So that the two processes do not take each other's core. Threads made later inherit it.
inline void pin(unsigned cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);  // with one core it fails, and is not needed
}

/// Forks twice and runs both functions, each with its Side. Call it before anything in this process
/// has made a thread or touched UCX. True if both returned normally.
template <class First, class Second>
[[nodiscard]] bool run_pair(First first, Second second) {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) return false;
  std::fflush(nullptr);
  auto const start = [&](auto& body, unsigned index) {
    pid_t const child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(index);
    close(fds[1 - index]);
    int status = 0;
    try {
      body(Side(fds[index]));
    } catch (std::exception const& e) {
      std::fprintf(stderr, "%s: %s\n", index == 0 ? "sender" : "receiver", e.what());
      status = 1;
    }
    std::fflush(nullptr);
    _exit(status);
  };
  std::array<pid_t, 2> const children{start(first, 0), start(second, 1)};
  close(fds[0]);
  close(fds[1]);
  bool good = true;
  for (pid_t const child : children) {
    int status = 0;
    good &= child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0;
  }
  return good;
}

}  // namespace b10::bench
