#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <b10/staging/host.hpp>

namespace support {

/// staging::Host that counts what happens to quarantined views.
template <class Slicing, class Engine>
class CountedHost : public b10::staging::Host<Slicing, Engine> {
  using Base = b10::staging::Host<Slicing, Engine>;

 public:
  static constexpr std::string_view name = "CountedHost";
  struct Counts {
    unsigned dropped = 0;
    unsigned recycled = 0;
    std::function<void()> on_drop = [] {};  ///< before the memory goes
  };
  struct Options : Base::Options {
    std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  };
  explicit CountedHost(Options const& o) : Base(o), counts_(o.counts) {}
  void drop(typename Base::Quarantined&& held) noexcept {
    ++counts_->dropped;
    counts_->on_drop();
    Base::drop(std::move(held));
  }
  void recycle(typename Base::Quarantined&& held) noexcept {
    ++counts_->recycled;
    Base::recycle(std::move(held));
  }

 private:
  std::shared_ptr<Counts> counts_;
};

}  // namespace support
