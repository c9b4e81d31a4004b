#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace b10::core {

/// The way into a lane from any thread: commands are queued under a mutex and run on the lane's
/// thread. Shared with the handles, so that a handle may outlive its transceiver.
template <class Lane>
class Door {
 public:
  struct Command {
    virtual ~Command() = default;
    virtual void run(Lane& lane) = 0;
  };

  /// `wake` must stay valid until close().
  struct Bell {
    void* context = nullptr;
    void (*ring)(void*) noexcept = nullptr;
  };
  explicit Door(Bell bell) noexcept : bell_(bell) {}

  /// False once the lane has shut its door; the command is destroyed unrun then.
  bool post(std::unique_ptr<Command> command) {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    commands_.push_back(std::move(command));
    if (!pending_.exchange(true, std::memory_order_release)) bell_.ring(bell_.context);
    return true;
  }

  /// Lane thread: runs what has been posted, in order. One relaxed load when there is nothing.
  unsigned drain(Lane& lane) {
    if (!pending_.load(std::memory_order_relaxed)) return 0;
    std::vector<std::unique_ptr<Command>> batch;
    {
      std::lock_guard lock(mutex_);
      pending_.store(false, std::memory_order_relaxed);
      batch.swap(commands_);
    }
    for (auto& c : batch) c->run(lane);
    return static_cast<unsigned>(batch.size());
  }

  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::atomic<bool> pending_{false};
  Bell bell_;
  bool closed_ = false;
};

}  // namespace b10::core
