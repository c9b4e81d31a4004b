#pragma once

#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include <zmq.hpp>

#include <b10/native_plane.hpp>
#include <b10/outcome.hpp>
#include <b10/time.hpp>

namespace b10::native_plane {

/// ZeroMQ: one PULL socket that all peers push to, one PUSH socket a route. Not authenticated: bind
/// it to a network that only the cluster can reach.
class Zmq {
 public:
  static constexpr std::string_view name = "native_plane::Zmq";

  struct Options {
    /// Where to accept, e.g. "tcp://10.0.0.1:*" or "ipc:///run/b10/d0"; "*" picks a port.
    std::string bind = "tcp://127.0.0.1:*";
    /// Messages that wait on one route, at most; send() is false beyond.
    int messages_max = 65'536;
  };

  /// Throws Error{transport_failed} naming what could not be bound.
  explicit Zmq(Options options) : options_(std::move(options)), context_(1) {
    attempt("bind \"" + options_.bind + "\"", [&] {
      in_ = zmq::socket_t(context_, zmq::socket_type::pull);
      in_.set(zmq::sockopt::linger, 0);
      in_.set(zmq::sockopt::rcvhwm, options_.messages_max);
      in_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(plane_message_bytes_max));
      in_.bind(options_.bind);
      address_ = in_.get(zmq::sockopt::last_endpoint);
    });
    while (!address_.empty() && address_.back() == '\0') address_.pop_back();
    bell_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (bell_ < 0) throw Error(Reason::transport_failed, "native_plane::Zmq: no eventfd");
  }
  Zmq(Zmq const&) = delete;
  Zmq& operator=(Zmq const&) = delete;
  ~Zmq() { ::close(bell_); }

  [[nodiscard]] std::string address() const { return address_; }

  /// Throws Error{transport_failed} for an address that ZeroMQ cannot read.
  [[nodiscard]] PlaneRoute open(std::string const& address) {
    zmq::socket_t out;
    attempt("connect to \"" + address + "\"", [&] {
      out = zmq::socket_t(context_, zmq::socket_type::push);
      out.set(zmq::sockopt::linger, 0);  // a dead peer delays no shutdown
      out.set(zmq::sockopt::sndhwm, options_.messages_max);
      out.connect(address);
    });
    std::lock_guard const lock(mutex_);
    routes_.emplace(next_, std::move(out));
    return PlaneRoute{next_++};
  }
  void close(PlaneRoute route) {
    std::lock_guard const lock(mutex_);
    routes_.erase(to_integer(route));
  }
  [[nodiscard]] bool send(PlaneRoute route, std::span<std::byte const> message) {
    if (message.size() > plane_message_bytes_max) return false;
    std::lock_guard const lock(mutex_);
    auto const it = routes_.find(to_integer(route));
    if (it == routes_.end()) return false;
    try {
      zmq::const_buffer const bytes(message.data(), message.size());
      return it->second.send(bytes, zmq::send_flags::dontwait).has_value();
    } catch (zmq::error_t const&) {
      return false;  // tried again, or given up by whoever owns the message
    }
  }
  [[nodiscard]] std::optional<std::vector<std::byte>> receive() {
    zmq::message_t message;
    try {
      if (!in_.recv(message, zmq::recv_flags::dontwait)) return std::nullopt;
    } catch (zmq::error_t const&) {
      return std::nullopt;
    }
    auto const* bytes = static_cast<std::byte const*>(message.data());
    return std::vector<std::byte>(bytes, bytes + message.size());
  }
  void wait(Duration limit) {
    zmq::pollitem_t items[] = {{in_.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, bell_, ZMQ_POLLIN, 0}};
    auto const ms = std::max<std::int64_t>(0, (limit.ns + 999'999) / 1'000'000);
    try {
      zmq::poll(items, 2, std::chrono::milliseconds(ms));
    } catch (zmq::error_t const&) {  // interrupted: as good as woken
    }
    std::uint64_t rung = 0;
    (void)!::read(bell_, &rung, sizeof rung);
  }
  void wake() noexcept {
    std::uint64_t const once = 1;
    (void)!::write(bell_, &once, sizeof once);
  }

 private:
  template <class F>
  static void attempt(std::string const& what, F&& f) {
    try {
      f();
    } catch (zmq::error_t const& e) {
      throw Error(Reason::transport_failed,
                  "native_plane::Zmq cannot " + what + ": " + std::string(e.what()));
    }
  }

  Options const options_;
  zmq::context_t context_;
  zmq::socket_t in_{};
  std::string address_{};
  int bell_ = -1;
  std::mutex mutex_{};  // guards what follows
  std::map<std::uint32_t, zmq::socket_t> routes_{};
  std::uint32_t next_ = 0;
};
static_assert(NativePlane<Zmq>);

}  // namespace b10::native_plane
