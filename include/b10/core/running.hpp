#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace b10::core {

/// The transfers of one side that run on a lane. Their order is a function of what has happened and
/// not of addresses, so that a simulated run repeats itself. T has a std::size_t `place` for this.
template <class T>
class Running {
 public:
  T& add(std::unique_ptr<T> t) {
    t->place = all_.size();
    all_.push_back(std::move(t));
    return *all_.back();
  }
  /// Ends its life.
  void remove(T& t) noexcept {
    std::size_t const place = t.place;
    std::swap(all_[place], all_.back());
    all_[place]->place = place;
    all_.pop_back();
  }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

 private:
  std::vector<std::unique_ptr<T>> all_{};
};

}  // namespace b10::core
