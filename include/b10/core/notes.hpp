#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include <b10/notification.hpp>

namespace b10::core {

/// What peers have said and nobody has read yet. The lane puts in, any thread takes out.
class NoteBox {
 public:
  /// False if `limit` wait already: the note is dropped then.
  bool put(Notification note, std::size_t limit) {
    std::lock_guard const lock(mutex_);
    if (notes_.size() >= limit) return false;
    notes_.push_back(std::move(note));
    return true;
  }
  [[nodiscard]] std::vector<Notification> take() {
    std::lock_guard const lock(mutex_);
    return std::exchange(notes_, {});
  }

 private:
  std::mutex mutex_{};
  std::vector<Notification> notes_{};
};

}  // namespace b10::core
