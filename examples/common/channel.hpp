// An engine's own channel between its prefill and decode processes, beside B10. Here a socket pair;
// in an engine its RPC. What is said over it each example says for itself.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <b10/time.hpp>

namespace demo {

/// `Kind`: an enumeration of 32 bits.
template <class Kind>
struct BasicMessage {
  Kind kind{};
  std::uint64_t request = 0;
  std::vector<std::uint64_t> numbers{};
  std::string text{};
};

struct PeerGone : std::runtime_error {
  PeerGone() : std::runtime_error("the other process has gone") {}
};

/// Until one of two descriptors has something to read, or the limit. A negative one never has.
inline void wait_readable(int first, int second, b10::Duration limit) {
  pollfd fds[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  poll(fds, 2, static_cast<int>(limit.ns / 1'000'000));
}

/// One end of the channel; owns its descriptor. One thread. Nothing waits longer than ten seconds.
template <class Kind>
class BasicPlane {
 public:
  using Message = BasicMessage<Kind>;

  explicit BasicPlane(int fd) : fd_(fd) {
    timeval const limit{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  BasicPlane(BasicPlane&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  BasicPlane& operator=(BasicPlane&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~BasicPlane() {
    if (fd_ >= 0) close(fd_);
  }

  /// Throws PeerGone.
  void send(Message const& m) {
    Head const head{m.kind, static_cast<std::uint32_t>(m.numbers.size()),
                    static_cast<std::uint32_t>(m.text.size()), 0, m.request};
    put(&head, sizeof head);
    put(m.numbers.data(), m.numbers.size() * sizeof m.numbers[0]);
    put(m.text.data(), m.text.size());
  }
  /// The next message, or nothing within the limit. Throws PeerGone.
  [[nodiscard]] std::optional<Message> receive(b10::Duration limit) {
    if (!readable(limit)) return std::nullopt;
    Head head{};
    get(&head, sizeof head);
    if (head.numbers > (1u << 24) || head.text > (1u << 20))
      throw std::runtime_error("the other process talks nonsense");
    Message m{head.kind, head.request, std::vector<std::uint64_t>(head.numbers),
              std::string(head.text, '\0')};
    get(m.numbers.data(), m.numbers.size() * sizeof m.numbers[0]);
    get(m.text.data(), m.text.size());
    return m;
  }
  /// Throws PeerGone, or if another message comes or none does.
  [[nodiscard]] Message expect(Kind kind, b10::Duration limit) {
    auto m = receive(limit);
    if (!m) throw std::runtime_error("the other process does not answer");
    if (m->kind != kind) throw std::runtime_error("the other process answers something else");
    return std::move(*m);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  struct Head {
    Kind kind;
    std::uint32_t numbers;
    std::uint32_t text;
    std::uint32_t unused;
    std::uint64_t request;
  };

  [[nodiscard]] bool readable(b10::Duration limit) const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, static_cast<int>(limit.ns / 1'000'000)) > 0;
  }
  void put(void const* data, std::size_t bytes) {
    for (auto at = static_cast<std::byte const*>(data); bytes > 0;) {
      auto const n = ::send(fd_, at, bytes, MSG_NOSIGNAL);
      if (n <= 0) throw PeerGone();
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void get(void* data, std::size_t bytes) {
    if (bytes == 0) return;
    if (::recv(fd_, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) throw PeerGone();
  }

  int fd_;
};

/// Takes what happens on a lane's thread to the thread that waits for it. Callbacks hold it too, so
/// that it outlives them. Any thread.
template <class T>
class Mailbox {
 public:
  Mailbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  Mailbox(Mailbox const&) = delete;
  Mailbox& operator=(Mailbox const&) = delete;
  ~Mailbox() { close(event_); }

  void push(T item) {
    {
      std::lock_guard const lock(mutex_);
      items_.push_back(std::move(item));
    }
    std::uint64_t const one = 1;
    [[maybe_unused]] auto const n = ::write(event_, &one, sizeof one);
  }
  [[nodiscard]] std::optional<T> pop() {
    std::lock_guard const lock(mutex_);
    if (items_.empty()) {
      std::uint64_t seen = 0;
      [[maybe_unused]] auto const n = ::read(event_, &seen, sizeof seen);
      return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }
  /// Readable while there may be something.
  [[nodiscard]] int fd() const { return event_; }

 private:
  int event_;
  std::mutex mutex_;
  std::deque<T> items_;
};

}  // namespace demo
