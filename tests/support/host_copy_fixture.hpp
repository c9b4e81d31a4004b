#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include <b10/copy_engine.hpp>
#include <b10/types.hpp>

namespace support {

/// The fixture of laws::copy_engine for engines that copy host memory. finish(engine, event) makes
/// a copy end.
template <b10::CopyEngine E, class Finish>
class HostCopyFixture {
 public:
  using Engine = E;

  HostCopyFixture(typename E::Options const& options, Finish end_copy)
      : engine_(options, 1024), finish_(std::move(end_copy)) {}

  E& engine() { return engine_; }
  b10::LocalSpan kv(std::size_t bytes) { return {room(bytes), bytes, b10::Device::host}; }
  std::byte* staging(std::size_t bytes) { return room(bytes); }
  void write(b10::LocalSpan to, std::vector<std::byte> const& content) {
    std::copy(content.begin(), content.end(), to.address);
  }
  std::vector<std::byte> read(b10::LocalSpan from) {
    return {from.address, from.address + from.bytes};
  }
  void finish(typename E::Event& event) { finish_(engine_, event); }
  b10::LocalSpan unreachable() { return {room(16), 16, b10::Device{0}}; }

 private:
  std::byte* room(std::size_t bytes) { return memory_.emplace_back(bytes).data(); }

  E engine_;
  Finish finish_;
  std::deque<std::vector<std::byte>> memory_{};
};

template <b10::CopyEngine E, class Finish>
[[nodiscard]] HostCopyFixture<E, Finish> host_copies(typename E::Options const& options,
                                                     Finish finish) {
  return {options, std::move(finish)};
}

}  // namespace support
