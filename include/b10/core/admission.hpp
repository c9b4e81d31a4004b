#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include <b10/core/fence.hpp>

namespace b10::core {

/// Bounds the bytes of running sends, in order of asking; small transfers pass. Waiting here has
/// posted nothing, so it quarantines nothing when its time is up.
class Admission {
 public:
  Admission(std::uint64_t limit, std::uint64_t small) : limit_(limit), small_(small) {}

  /// A transfer larger than the limit runs alone.
  bool admit(Fence& fence, std::uint64_t bytes) {
    bool const first = waiting_.empty() || waiting_.front() == &fence;
    bool const fits = running_ == 0 || bytes <= limit_ - std::min(limit_, running_);
    if (bytes > small_ && !(first && fits)) {
      if (std::find(waiting_.begin(), waiting_.end(), &fence) == waiting_.end())
        waiting_.push_back(&fence);
      return false;
    }
    if (!waiting_.empty() && waiting_.front() == &fence) waiting_.pop_front();
    running_ += bytes;
    wake();
    return true;
  }
  /// Ends a transfer, admitted or still waiting.
  void leave(Fence& fence, std::uint64_t admitted_bytes) noexcept {
    running_ -= admitted_bytes;
    std::erase(waiting_, &fence);
    wake();
  }
  [[nodiscard]] std::uint64_t running() const noexcept { return running_; }

 private:
  void wake() noexcept {
    if (!waiting_.empty()) waiting_.front()->wake();
  }
  std::uint64_t limit_;
  std::uint64_t small_;
  std::uint64_t running_ = 0;
  std::deque<Fence*> waiting_;
};

}  // namespace b10::core
