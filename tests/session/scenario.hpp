#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/host_event.hpp>
#include <b10/native_plane/in_process.hpp>
#include <b10/session/agent.hpp>
#include <b10/session/kv_slice.hpp>
#include <b10/session/session_node.hpp>

#include "session/two_ranks.hpp"
#include "support/catch.hpp"

namespace support {

/// A rank whose sessions run over b10::Agent, with one paged group in the memory it is given: slots
/// of 256 bytes.
template <class Transceiver>
struct AgentRank {
  using Agent = b10::Agent<Transceiver>;
  using Node = ses::SessionNode<Agent, InProcess>;
  static constexpr std::uint64_t slot_bytes = 256;

  AgentRank(Transceiver& transceiver, std::shared_ptr<InProcess::Hub> hub, std::string const& name,
            std::span<std::byte> pool, std::function<b10::Instant()> clock,
            ses::SessionTimes times = {b10::seconds(10), b10::seconds(100)}, ses::NodeId id = {})
      : memory(pool),
        agent(transceiver, {.name = name, .clock = std::move(clock)}),
        plane({std::move(hub), name}),
        node(agent, plane, options(name, pool, times, id)) {
    transceiver.register_memory({aux.data(), aux.size()});
  }
  static ses::NodeOptions options(std::string const& name, std::span<std::byte> pool,
                                  ses::SessionTimes times, ses::NodeId id) {
    ses::NodeOptions o;
    o.id = id;
    o.shape.name = name;
    o.shape.aux_bytes = aux_bytes;
    o.shape.groups = {{small_group(),
                       {reinterpret_cast<std::uint64_t>(pool.data()), slot_bytes,
                        static_cast<std::uint32_t>(pool.size() / slot_bytes)}}};
    o.times = times;
    return o;
  }
  [[nodiscard]] std::span<std::byte> slot(ses::SlotId s) const {
    return memory.subspan(b10::to_integer(s) * slot_bytes, slot_bytes);
  }

  std::span<std::byte> memory;
  std::vector<std::byte> aux = std::vector<std::byte>(aux_bytes);
  Agent agent;
  InProcess plane;
  Node node;
};

/// The slots first, first + 1 ...
inline std::vector<ses::SlotId> slots_from(std::uint32_t first, std::uint32_t count) {
  std::vector<ses::SlotId> out;
  for (auto i = first; i < first + count; ++i) out.push_back(ses::SlotId{i});
  return out;
}

/// One story over any agent. A backend has `Node`, `p()` and `d()` (the nodes),
/// `source(slot)` and `target(slot)` (256 bytes each), `aux()`, and `until(done)`, which lets
/// things happen until done() and says whether that was so in time.
template <class Backend>
class Scenario {
  using Tx = typename Backend::Node::Tx;
  using Rx = typename Backend::Node::Rx;
  static constexpr std::uint64_t prompt = 40;  // ten blocks of four tokens
  static constexpr std::uint32_t sources = 20;

 public:
  explicit Scenario(Backend& backend) : x(backend) {
    x.d().register_peer(p);
    REQUIRE(x.until([&] { return x.p().knows(d) && x.d().knows(p); }));
    for (std::uint32_t i = 0; i < 10; ++i)
      for (std::size_t at = 0; at < 256; ++at)
        x.source(ses::SlotId{sources + i})[at] = static_cast<std::byte>(i * 41 + at * 7 + at / 251);
  }

  void run() {
    chunks_and_an_event();
    cancelled_by_the_receiver();
    cancelled_by_the_sender();
    late_receiver_in_the_same_slots();
    prefix_is_held();
    CHECK(x.p().gauges().tx + x.d().gauges().rx == 0);
  }

 private:
  typename Tx::Slice slice(std::uint32_t id, std::uint32_t first, std::uint32_t end, bool last,
                           b10::HostEvent ready = {}) {
    typename Tx::Slice s;
    s.id = ses::SenderSliceId{id};
    s.is_last = last;
    s.ready = std::move(ready);
    s.groups.push_back(
        ses::cut(ses::GroupId{0}, {ses::BlockOrdinal{first}, ses::BlockOrdinal{end}},
                 [](ses::BlockOrdinal i) { return ses::SlotId{sources + b10::to_integer(i)}; }));
    return s;
  }
  std::shared_ptr<Tx> tx(std::uint64_t request) {
    return x.p().tx({b10::RequestId{request}, prompt, 1, true});
  }
  std::shared_ptr<Rx> rx(std::uint64_t request, std::uint32_t first_slot, std::uint32_t start = 0) {
    auto rx = x.d().rx({b10::RequestId{request}, ses::ReceiverSliceId{7}, prompt, {p}});
    ses::BlockTable t({4}, prompt);
    t.place(ses::BlockOrdinal{start}, slots_from(first_slot + start, 10 - start));
    rx->receive({{{ses::GroupId{0}, t, ses::BlockOrdinal{start}}}, {}, x.aux()});
    return rx;
  }
  [[nodiscard]] std::uint32_t exact(std::uint32_t first_slot, std::uint32_t start = 0) {
    std::uint32_t good = 0;
    for (auto i = start; i < 10; ++i)
      good += std::memcmp(x.source(ses::SlotId{sources + i}).data(),
                          x.target(ses::SlotId{first_slot + i}).data(), 256) == 0;
    return good;
  }
  void end(Tx& sender, Rx& receiver) {
    REQUIRE(x.until([&] { return !sender.has_transferring_tasks(); }));
    REQUIRE(x.until([&] { return receiver.take_pages({}).has_value(); }));
    CHECK(receiver.close() == ses::CloseAnswer::closed);
    CHECK(sender.close() == ses::CloseAnswer::closed);
    REQUIRE(x.until([&] { return x.p().gauges().tx + x.d().gauges().rx == 0; }));
  }

  void chunks_and_an_event() {
    auto const receiver = rx(1, 10);
    auto const sender = tx(1);
    auto event = b10::HostEvent::create();
    sender->send(slice(0, 0, 4, false));
    sender->send(slice(1, 4, 7, false, event));
    sender->send(slice(2, 7, 10, true));
    sender->send_aux(payload("token"));
    REQUIRE(x.until([&] { return receiver->status() == ses::SessionStatus::transferring; }));
    CHECK_FALSE(ended(sender->status()));
    CHECK(sender->has_transferring_tasks());
    event.fire();
    REQUIRE(x.until([&] { return ended(receiver->status()) && ended(sender->status()); }));
    CHECK(receiver->why() == "");
    CHECK(sender->status() == ses::SessionStatus::fully_transferred);
    CHECK(receiver->status() == ses::SessionStatus::fully_transferred);
    CHECK(receiver->aux() == payload("token"));
    CHECK(exact(10) == 10);
    end(*sender, *receiver);
  }
  void cancelled_by_the_receiver() {
    auto const receiver = rx(2, 30);
    auto const sender = tx(2);
    auto event = b10::HostEvent::create();
    sender->send(slice(0, 0, 4, false));
    sender->send(slice(1, 4, 7, false, event));
    REQUIRE(x.until([&] { return receiver->status() == ses::SessionStatus::transferring; }));
    (void)receiver->cancel();
    event.fire();
    REQUIRE(x.until([&] { return ended(sender->status()); }));
    CHECK(sender->status() == ses::SessionStatus::cancelled);
    CHECK(receiver->status() == ses::SessionStatus::cancelled);
    end(*sender, *receiver);
  }
  void cancelled_by_the_sender() {
    auto const receiver = rx(3, 30);
    auto const sender = tx(3);
    sender->send(slice(0, 0, 4, false));
    REQUIRE(x.until([&] { return receiver->status() == ses::SessionStatus::transferring; }));
    (void)sender->cancel();
    REQUIRE(x.until([&] { return ended(receiver->status()); }));
    CHECK(sender->status() == ses::SessionStatus::cancelled);
    CHECK(receiver->status() == ses::SessionStatus::cancelled);
    end(*sender, *receiver);
  }
  void late_receiver_in_the_same_slots() {
    auto const sender = tx(4);
    sender->send(slice(0, 0, 5, false));
    sender->send(slice(1, 5, 10, true));
    sender->send_aux(payload("late"));
    auto const receiver = rx(4, 30);
    REQUIRE(x.until([&] { return ended(receiver->status()) && ended(sender->status()); }));
    CHECK(receiver->status() == ses::SessionStatus::fully_transferred);
    CHECK(receiver->aux() == payload("late"));
    CHECK(exact(30) == 10);
    end(*sender, *receiver);
  }
  void prefix_is_held() {
    auto const receiver = rx(5, 50, 6);
    auto const sender = tx(5);
    sender->send(slice(0, 0, 10, true));
    sender->send_aux({});
    REQUIRE(x.until([&] { return ended(receiver->status()) && ended(sender->status()); }));
    CHECK(receiver->status() == ses::SessionStatus::fully_transferred);
    CHECK(exact(50, 6) == 4);
    end(*sender, *receiver);
  }

  Backend& x;
  std::string p = x.p().shape().name, d = x.d().shape().name;
};

}  // namespace support
