// The same bytes by bare UCX between the same two processes: what B10 is compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <b10/steady_clock.hpp>

#include "bench/raw_ucx.hpp"
#include "plane.hpp"

namespace demo {

/// Both sides hold one, so that memory is touched once. Messages walk over as much memory as a
/// request batch does, up to a limit.
class RawPass {
  static constexpr std::size_t window = 4;
  static constexpr std::size_t warm_up = 1;
  static constexpr std::uint64_t step = std::uint64_t{128} << 20;

  /// Where message i lies.
  [[nodiscard]] auto at(std::vector<std::uint64_t> const& sizes) {
    return [this, &sizes](std::size_t i, std::size_t) {
      return std::span(memory_).subspan(offsets_[i], sizes[i]);
    };
  }
  static std::string text(std::vector<std::byte> const& bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  }
  void hold(std::vector<std::uint64_t> const& sizes) {
    offsets_.clear();
    std::uint64_t end = 0;
    for (auto const size : sizes) {
      offsets_.push_back(end);
      end += size;
    }
    if (memory_.size() < end) memory_.assign((end + step - 1) / step * step, std::byte{0x5a});
  }

 public:
  static constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20;

  explicit RawPass(b10::transport::ucx::Wire wire) : wire_(wire) {}

  /// Receiver. `sizes`: of the messages, in order. Returns how long it took.
  b10::Duration receive(Plane& plane, std::vector<std::uint64_t> const& sizes) {
    hold(sizes);
    b10::bench::RawUcx raw(to_string(wire_), "lo");
    plane.send({Kind::raw, 0, sizes, text(raw.address())});
    auto const peer = plane.expect(Kind::raw, b10::seconds(10)).text;
    raw.connect(std::as_bytes(std::span(peer)));
    b10::Instant start{};
    auto const go = [&] { plane.send({Kind::raw_go}); };
    raw.receive(1, warm_up, window, at(sizes), go, [](auto, auto) {});
    raw.receive(
        1 + warm_up, sizes.size(), window, at(sizes),
        [&] {
          start = b10::steady_now();
          go();
        },
        [](auto, auto) {});
    auto const took = b10::steady_now() - start;
    plane.send({Kind::raw_end});
    return took;
  }
  /// Sender, told by a raw message.
  void send(Plane& plane, Message const& m) {
    hold(m.numbers);
    b10::bench::RawUcx raw(to_string(wire_), "lo");
    plane.send({Kind::raw, 0, {}, text(raw.address())});
    raw.connect(std::as_bytes(std::span(m.text)));
    (void)plane.expect(Kind::raw_go, b10::seconds(10));
    raw.send(1, warm_up, window, at(m.numbers));
    (void)plane.expect(Kind::raw_go, b10::seconds(10));
    raw.send(1 + warm_up, m.numbers.size(), window, at(m.numbers));
    (void)plane.expect(Kind::raw_end, b10::seconds(10));
  }

 private:
  b10::transport::ucx::Wire wire_;
  std::vector<std::byte> memory_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace demo
