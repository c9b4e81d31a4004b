// The interface of configuration.hpp for one policy set, and a matrix of them put into a catalog.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <b10/policy_set.hpp>

#include "configuration.hpp"

namespace b10::bench {

/// The type as this compiler writes it, which is C++ again.
template <class T>
[[nodiscard]] constexpr std::string_view type_name() {
  std::string_view const whole = __PRETTY_FUNCTION__;
  auto const first = whole.find("T = ") + 4;
  return whole.substr(first, whole.find_first_of(";]", first) - first);
}

/// "256 KiB".
[[nodiscard]] inline std::string size_name(std::uint64_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB"
                                : std::to_string(bytes >> 10) + " KiB";
}

/// A policy's name without its axis, and with what it is made of where that tells models apart:
/// "Pipelined<256 KiB, 4>", "Ttl<120 s>".
template <class P>
[[nodiscard]] std::string label() {
  std::string text(P::name.substr(P::name.find("::") + 2));
  if constexpr (Slicing<P>) {
    constexpr auto any = std::uint64_t{1} << 60;
    if (P::slice_bytes(any) == any) return text;
    text += "<" + size_name(P::slice_bytes(any));
    return text + (P::depth > 1 ? ", " + std::to_string(P::depth) + ">" : ">");
  }
  if constexpr (requires { P::ttl; })
    text += "<" + std::to_string(P::ttl.ns / 1'000'000'000) + " s>";
  if constexpr (requires { P::time; })
    text += "<" + std::to_string(P::time.ns / 1'000'000'000) + " s>";
  return text;
}

/// What a transfer in one piece is staged in [bytes].
inline constexpr std::uint64_t whole_bytes = std::uint64_t{32} << 20;

template <class Set>
class PairOf : public Pair {
  using Node = transceiver_of<Set>;
  using Config = typename Node::Config;
  using S = typename Set::Staging;

 public:
  explicit PairOf(PairOptions const& o) {
    auto receiver = config("receiver", o.receiver_gpu);
    auto sender = config("sender", o.sender_gpu);
    if constexpr (requires { receiver.transport.network; }) {
      sender.transport.network = receiver.transport.network = make_network(receiver.transport);
    } else {
      using Wire = decltype(receiver.transport.wire);
      receiver.transport.wire = sender.transport.wire =
          o.carrier == Carrier::posix ? Wire::shared_memory : Wire::tcp;
      receiver.transport.key = sender.transport.key = "a key for measuring only";
    }
    receiver_ = std::make_unique<Node>(std::move(receiver));
    sender_ = std::make_unique<Node>(std::move(sender));
    peer_ = sender_->connect(receiver_->address(), seconds(10));
  }

  void register_memory(LocalSpan destination) override { receiver_->register_memory(destination); }
  [[nodiscard]] Grant grant(RequestId request, std::span<LocalSpan const> spans) override {
    return receiver_->grant(request, spans, seconds(60));
  }
  [[nodiscard]] Transfer write(RequestId request, std::span<LocalSpan const> sources,
                               std::span<RemoteSpan const> destinations) override {
    return sender_->write(peer_, {.request = request,
                                  .sources = sources,
                                  .destinations = destinations,
                                  .deadline = seconds(30)});
  }
  [[nodiscard]] std::uint64_t staging_bytes() const override {
    return receiver_->metrics().staging_total.get();
  }
  [[nodiscard]] std::string explain() override { return sender_->explain(); }

 private:
  template <class TransportOptions>
  static auto make_network(TransportOptions const&) {
    return std::make_shared<typename Set::Transport::Network>();
  }
  /// Staging for one transfer in each direction at full depth, and no more: what a composition
  /// needs is part of what it costs.
  static Config config(char const* name, int gpu) {
    Config c;
    c.name = name;
    auto const slice = S::Slicing::slice_bytes(whole_bytes);
    c.staging.buffer_bytes = slice * S::Slicing::depth;
    c.staging.buffers = 2;
    c.max_in_flight_ops = S::Slicing::depth;
    if constexpr (requires { c.transport.address; }) c.transport.address = name;
    if constexpr (requires { c.staging.device; }) c.staging.device = gpu;
    if constexpr (requires { c.staging.pinning.device; }) c.staging.pinning.device = gpu;
    if constexpr (S::placement == Placement::device) c.staging.lives = 1;
    if constexpr (requires { c.staging.copies.devices; }) {
      c.staging.copies.devices = {gpu};
      auto const smallest = std::uint64_t{256};  // block of any workload [bytes]
      c.staging.copies.spans_max =
          std::max(c.staging.copies.spans_max, static_cast<std::uint32_t>(slice / smallest));
    }
    return c;
  }

  std::unique_ptr<Node> receiver_{};
  std::unique_ptr<Node> sender_{};
  PeerId peer_{};
};

/// Puts every valid set of a b10::matrix into a catalog.
template <class Default, class Matrix>
void add_matrix(Catalog& to, Carrier carrier, Matrix const& sets, bool on_gpu = false) {
  for_each_set(sets, [&](auto wrapped) {
    using Set = typename decltype(wrapped)::type;
    Configuration c;
    c.type = type_name<Set>();
    c.axes = {label<typename Set::Staging>(),
              label<typename Set::Staging::Slicing>(),
              label<typename Set::Staging::CopyEngine>(),
              label<typename Set::Tags>(),
              label<typename Set::Completion>(),
              label<typename Set::Quarantine>(),
              label<typename Set::Transport>()};
    c.contract = contract_of<Set>::all();
    c.never_silent = NeverSilent<Set>;
    c.is_default = std::is_same_v<Set, Default>;
    c.carrier = carrier;
    c.on_gpu = on_gpu;
    c.open = [](PairOptions const& o) -> std::unique_ptr<Pair> {
      return std::make_unique<PairOf<Set>>(o);
    };
    to.push_back(std::move(c));
  });
}

}  // namespace b10::bench
