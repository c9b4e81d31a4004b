#pragma once

#include <cstdint>
#include <string_view>

#include <b10/types.hpp>
#include <b10/waker.hpp>

namespace b10 {

enum class OperationStatus : std::uint8_t {
  ok,
  cancelled,  ///< ended by cancel or by retiring the link; says nothing about the bytes
  truncated,  ///< the message was longer than the buffer
  failed,
};

/// One posted send or receive. Its address must stay put from the post until it is done or its link
/// is destroyed; whoever posts keeps it and the buffer alive that long. Completed exactly once.
class Operation {
 public:
  Operation() = default;
  Operation(Operation const&) = delete;
  Operation& operator=(Operation const&) = delete;

  [[nodiscard]] bool posted() const noexcept { return state_ != State::idle; }
  [[nodiscard]] bool pending() const noexcept { return state_ == State::pending; }
  [[nodiscard]] bool done() const noexcept { return state_ == State::done; }
  [[nodiscard]] OperationStatus status() const noexcept { return status_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_;
  }                                                        ///< message length of a receive
  [[nodiscard]] Tag tag() const noexcept { return tag_; }  ///< the tag it really matched
  [[nodiscard]] std::string_view text() const noexcept { return text_; }  ///< static storage

  /// For the transport: marks it posted / ends it and wakes its owner.
  void start(Tag tag) noexcept {
    state_ = State::pending;
    tag_ = tag;
  }
  void complete(OperationStatus status, std::uint64_t bytes, Tag tag,
                std::string_view text = {}) noexcept {
    state_ = State::done;
    status_ = status;
    bytes_ = bytes;
    tag_ = tag;
    text_ = text;
    if (waker) waker->wake();
  }
  /// Back to idle, to be posted again. Only when done.
  void reset() noexcept { state_ = State::idle; }

  Waker* waker = nullptr;  ///< null once nobody waits any more
  void* handle = nullptr;  ///< the transport's own

 private:
  enum class State : std::uint8_t { idle, pending, done };
  State state_ = State::idle;
  OperationStatus status_ = OperationStatus::ok;
  std::uint64_t bytes_ = 0;
  Tag tag_{};
  std::string_view text_{};
};

}  // namespace b10
