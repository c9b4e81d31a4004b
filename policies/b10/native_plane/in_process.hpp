#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/native_plane.hpp>
#include <b10/outcome.hpp>
#include <b10/time.hpp>

namespace b10::native_plane {

/// Mailboxes of one process: for tests, and for ranks that are threads. Deterministic: a message is
/// there as soon as send() returns.
class InProcess {
  struct Mailbox {
    std::mutex mutex{};
    std::condition_variable changed{};
    std::deque<std::vector<std::byte>> messages{};
    bool woken = false;
    bool gone = false;
  };

 public:
  static constexpr std::string_view name = "native_plane::InProcess";

  /// Where planes find each other. Shared by all of them; any thread.
  class Hub {
   private:
    friend class InProcess;
    [[nodiscard]] std::shared_ptr<Mailbox> mailbox(std::string const& address) {
      std::lock_guard const lock(mutex_);
      auto& box = boxes_[address];
      if (!box) box = std::make_shared<Mailbox>();
      return box;
    }
    /// A new owner starts with what came before it opened.
    [[nodiscard]] std::shared_ptr<Mailbox> own(std::string const& address) {
      std::lock_guard const lock(mutex_);
      auto& box = boxes_[address];
      if (!box || box->gone) box = std::make_shared<Mailbox>();
      return box;
    }
    std::mutex mutex_{};
    std::map<std::string, std::shared_ptr<Mailbox>> boxes_{};
  };

  struct Options {
    std::shared_ptr<Hub> hub{};
    std::string address{};
    /// Messages that wait for one plane, at most; send() is false beyond.
    std::size_t messages_max = 65'536;
  };

  explicit InProcess(Options options) : options_(std::move(options)) {
    if (!options_.hub || options_.address.empty())
      throw Error(Reason::invalid_request,
                  "native_plane::InProcess needs Options::hub and Options::address");
    own_ = options_.hub->own(options_.address);
  }
  InProcess(InProcess const&) = delete;
  InProcess& operator=(InProcess const&) = delete;
  ~InProcess() {
    std::lock_guard const lock(own_->mutex);
    own_->gone = true;
    own_->messages.clear();
  }

  [[nodiscard]] std::string address() const { return options_.address; }

  [[nodiscard]] PlaneRoute open(std::string const& address) {
    std::lock_guard const lock(mutex_);
    routes_.emplace(next_, address);
    return PlaneRoute{next_++};
  }
  void close(PlaneRoute route) {
    std::lock_guard const lock(mutex_);
    routes_.erase(to_integer(route));
  }
  [[nodiscard]] bool send(PlaneRoute route, std::span<std::byte const> message) {
    if (message.size() > plane_message_bytes_max) return false;
    std::string address;
    {
      std::lock_guard const lock(mutex_);
      auto const it = routes_.find(to_integer(route));
      if (it == routes_.end()) return false;
      address = it->second;
    }
    auto const box = options_.hub->mailbox(address);
    std::lock_guard const lock(box->mutex);
    if (box->messages.size() >= options_.messages_max) return false;
    if (!box->gone) box->messages.emplace_back(message.begin(), message.end());
    box->changed.notify_all();
    return true;
  }
  [[nodiscard]] std::optional<std::vector<std::byte>> receive() {
    std::lock_guard const lock(own_->mutex);
    if (own_->messages.empty()) return std::nullopt;
    auto message = std::move(own_->messages.front());
    own_->messages.pop_front();
    return message;
  }
  void wait(Duration limit) {
    std::unique_lock lock(own_->mutex);
    own_->changed.wait_for(lock, std::chrono::nanoseconds(limit.ns),
                           [&] { return own_->woken || !own_->messages.empty(); });
    own_->woken = false;
  }
  void wake() noexcept {
    std::lock_guard const lock(own_->mutex);
    own_->woken = true;
    own_->changed.notify_all();
  }

 private:
  Options const options_;
  std::shared_ptr<Mailbox> own_;
  std::mutex mutex_{};  // guards what follows
  std::map<std::uint32_t, std::string> routes_{};
  std::uint32_t next_ = 0;
};
static_assert(NativePlane<InProcess>);

}  // namespace b10::native_plane
