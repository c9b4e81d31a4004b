#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <b10/operation.hpp>
#include <b10/steady_clock.hpp>
#include <b10/transport.hpp>

#include "support/catch.hpp"

namespace laws {

/// A handler that keeps what it is told, and checks that it is told inside progress() only.
template <class T>
struct Node {
  struct Down {
    b10::LinkId link;
    b10::LinkDown how;
    std::string why;
  };

  explicit Node(T& t) : transport(&t) {}

  T* transport;
  bool progressing = false;
  b10::Generation floor{};  ///< answer to last_generation
  std::string refusal{};    ///< answer to refuse
  std::string refused_from{};
  std::vector<std::unique_ptr<typename T::Link>> links{};
  std::vector<b10::LinkInfo> infos{};
  std::vector<b10::ConnectId> connects{};
  std::vector<std::pair<b10::ConnectId, std::string>> failures{};
  std::vector<Down> downs{};
  std::vector<std::string> controls{};
  bool drop_link_on_control = false;
  bool drop_link_on_down = false;

  b10::Generation last_generation(b10::Hello const&, b10::PairDomain) noexcept {
    inside();
    return floor;
  }
  std::string refuse(b10::Hello const&, std::string_view from) {
    inside();
    refused_from = from;
    return refusal;
  }
  void on_link(typename T::Link&& link, b10::LinkInfo const& info, b10::ConnectId connect) {
    inside();
    links.push_back(std::make_unique<typename T::Link>(std::move(link)));
    infos.push_back(info);
    connects.push_back(connect);
    floor = std::max(floor, info.generation);
  }
  void on_connect_failed(b10::ConnectId connect, std::string_view why) {
    inside();
    failures.emplace_back(connect, why);
  }
  void on_link_down(b10::LinkId link, b10::LinkDown how, std::string_view why) noexcept {
    inside();
    downs.push_back({link, how, std::string(why)});
    if (drop_link_on_down) drop(link);
  }
  void on_control(b10::LinkId link, std::span<std::byte const> frame) {
    inside();
    controls.emplace_back(reinterpret_cast<char const*>(frame.data()), frame.size());
    if (drop_link_on_control) drop(link);
  }

  void drop(b10::LinkId id) {
    std::erase_if(links, [&](auto const& l) { return l->id() == id; });
  }
  unsigned progress() {
    progressing = true;
    auto const n = transport->progress(*this);
    progressing = false;
    return n;
  }
  typename T::Link& link() { return *links.back(); }

 private:
  void inside() const {
    if (!progressing) FAIL("a handler was called outside progress()");
  }
};

/// Two nodes over what `Fixture` makes: `using Transport`, `Transport& left()`, `Transport&
/// right()`, fresh ones that can reach each other and have not connected.
template <class Fixture>
struct Duo {
  using T = typename Fixture::Transport;

  Fixture fixture{};
  Node<T> left{fixture.left()};
  Node<T> right{fixture.right()};

  /// Progresses both until `done`; false after 20 s, which only a broken transport takes.
  template <class Done>
  [[nodiscard]] bool until(Done done) {
    auto const limit = b10::steady_now() + b10::seconds(20);
    while (!done()) {
      left.progress();
      right.progress();
      if (b10::steady_now() > limit) return false;
    }
    return true;
  }
  /// Progresses both long enough for anything that is under way to arrive.
  void settle() {
    for (int i = 0; i < 5000; ++i) {
      left.progress();
      right.progress();
    }
  }
  b10::Instant soon() { return left.transport->now() + b10::seconds(15); }
  void connect(std::uint64_t id = 1) {
    auto const n = left.links.size();
    auto const m = right.links.size();
    left.transport->connect(b10::ConnectId{id}, right.transport->address(), soon());
    auto const failed = left.failures.size();
    bool const met = until([&] {
      return left.failures.size() > failed || (left.links.size() > n && right.links.size() > m);
    });
    if (left.failures.size() > failed) FAIL(left.failures.back().second);
    REQUIRE(met);
  }
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> v(bytes);
  std::uint32_t x = seed * 2654435761u + 1;
  for (auto& b : v) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return v;
}

inline std::span<std::byte const> frame(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class Fixture>
void connecting_gives_both_the_same_link() {
  Duo<Fixture> duo;
  duo.left.floor = b10::Generation{6};
  duo.right.floor = b10::Generation{9};
  duo.connect(17);
  REQUIRE(duo.left.infos.size() == 1);
  REQUIRE(duo.right.infos.size() == 1);
  auto const& l = duo.left.infos[0];
  auto const& r = duo.right.infos[0];
  CHECK(l.domain == r.domain);
  CHECK(l.generation == r.generation);
  CHECK(l.generation > b10::Generation{9});
  CHECK(l.initiator);
  CHECK_FALSE(r.initiator);
  CHECK(duo.left.connects[0] == b10::ConnectId{17});
  CHECK(duo.right.connects[0] == b10::ConnectId{0});
  CHECK_FALSE(l.remote.name == r.remote.name);
  CHECK(l.remote.listen == duo.right.transport->address());
  CHECK_FALSE(duo.left.transport->explain().empty());
}

template <class Fixture>
void a_generation_is_never_given_out_twice() {
  Duo<Fixture> duo;
  duo.connect(1);
  // Both at once, and one twice: every link has its own.
  duo.left.transport->connect(b10::ConnectId{2}, duo.right.transport->address(), duo.soon());
  duo.left.transport->connect(b10::ConnectId{3}, duo.right.transport->address(), duo.soon());
  duo.right.transport->connect(b10::ConnectId{4}, duo.left.transport->address(), duo.soon());
  REQUIRE(duo.until([&] {
    return duo.left.links.size() + duo.left.failures.size() + duo.right.failures.size() == 4 &&
           duo.left.links.size() == duo.right.links.size();
  }));
  std::vector<b10::Generation> seen;
  for (auto const& i : duo.left.infos) {
    CHECK(i.domain == duo.left.infos[0].domain);
    seen.push_back(i.generation);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

template <class Fixture>
void refusals_and_dead_ends_are_told_once() {
  Duo<Fixture> duo;
  auto& t = *duo.left.transport;
  duo.right.refusal = "node right does not want node left";
  t.connect(b10::ConnectId{1}, duo.right.transport->address(), duo.soon());
  REQUIRE(duo.until([&] { return !duo.left.failures.empty(); }));
  CHECK(duo.left.failures[0].first == b10::ConnectId{1});
  CHECK(duo.left.failures[0].second.find(duo.right.refusal) != std::string::npos);
  CHECK_FALSE(duo.right.refused_from.empty());

  t.connect(b10::ConnectId{2}, "nowhere", t.now() + b10::milliseconds(20));
  REQUIRE(duo.until([&] { return duo.left.failures.size() == 2; }));
  CHECK(duo.left.failures[1].first == b10::ConnectId{2});
  CHECK_FALSE(duo.left.failures[1].second.empty());

  duo.right.refusal.clear();
  t.connect(b10::ConnectId{3}, duo.right.transport->address(), t.now());
  REQUIRE(duo.until([&] { return duo.left.failures.size() == 3 || !duo.left.links.empty(); }));
  duo.settle();
  CHECK(duo.left.failures.size() + duo.left.links.size() == 3);
}

template <class Fixture>
void bytes_arrive_exactly(std::size_t bytes, bool receive_first) {
  CAPTURE(bytes, receive_first);
  Duo<Fixture> duo;
  duo.connect();
  auto const source = pattern(bytes, 3);
  std::vector<std::byte> target(bytes + 64, std::byte{0xcc});
  b10::Operation sent, received;
  if (receive_first) duo.right.link().receive(b10::Tag{77}, target.data(), bytes, received);
  duo.left.link().send(b10::Tag{77}, source.data(), bytes, sent);
  if (!receive_first) {
    duo.settle();
    duo.right.link().receive(b10::Tag{77}, target.data(), bytes, received);
  }
  REQUIRE(duo.until([&] { return sent.done() && received.done(); }));
  CHECK(sent.status() == b10::OperationStatus::ok);
  CHECK(received.status() == b10::OperationStatus::ok);
  CHECK(received.bytes() == bytes);
  CHECK(received.tag() == b10::Tag{77});
  CHECK(std::equal(source.begin(), source.end(), target.begin()));
  CHECK(std::all_of(target.begin() + static_cast<std::ptrdiff_t>(bytes), target.end(),
                    [](std::byte b) { return b == std::byte{0xcc}; }));
}

template <class Fixture>
void equal_tags_match_in_order() {
  Duo<Fixture> duo;
  duo.connect();
  std::array<std::uint64_t, 8> out{};
  std::array<std::uint64_t, 8> in{};
  std::array<b10::Operation, 8> sent, received;
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = 100 + i;
    duo.left.link().send(b10::Tag{5}, reinterpret_cast<std::byte const*>(&out[i]), 8, sent[i]);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    duo.right.link().receive(b10::Tag{5}, reinterpret_cast<std::byte*>(&in[i]), 8, received[i]);
  }
  REQUIRE(duo.until([&] {
    return std::all_of(received.begin(), received.end(), [](auto& o) { return o.done(); });
  }));
  CHECK(in == out);
}

template <class Fixture>
void tags_match_in_full() {
  Duo<Fixture> duo;
  duo.connect();
  std::array<std::byte, 4> const out{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> first{}, second{};
  b10::Operation sent, wrong, right;
  duo.right.link().receive(b10::Tag{1}, first.data(), 4, wrong);
  duo.right.link().receive(b10::Tag{1ull << 63 | 1}, second.data(), 4, right);
  duo.left.link().send(b10::Tag{1ull << 63 | 1}, out.data(), 4, sent);
  REQUIRE(duo.until([&] { return right.done(); }));
  duo.settle();
  CHECK(wrong.pending());
  CHECK(second == out);
}

template <class Fixture>
void lengths_are_told() {
  Duo<Fixture> duo;
  duo.connect();
  for (std::size_t const bytes : {std::size_t{100}, std::size_t{100'000}}) {
    auto const source = pattern(bytes, 4);
    std::vector<std::byte> target(2 * bytes, std::byte{0xcc});
    b10::Operation sent, received, sent_more, truncated;
    duo.right.link().receive(b10::Tag{1}, target.data(), 2 * bytes, received);
    duo.left.link().send(b10::Tag{1}, source.data(), bytes, sent);
    REQUIRE(duo.until([&] { return received.done(); }));
    CHECK(received.status() == b10::OperationStatus::ok);
    CHECK(received.bytes() == bytes);

    std::fill(target.begin(), target.end(), std::byte{0xcc});
    duo.right.link().receive(b10::Tag{2}, target.data(), bytes / 2, truncated);
    duo.left.link().send(b10::Tag{2}, source.data(), bytes, sent_more);
    REQUIRE(duo.until([&] { return truncated.done(); }));
    CHECK(truncated.status() == b10::OperationStatus::truncated);
    CHECK(std::all_of(target.begin() + static_cast<std::ptrdiff_t>(bytes / 2), target.end(),
                      [](std::byte b) { return b == std::byte{0xcc}; }));
    REQUIRE(duo.until([&] { return sent.done() && sent_more.done(); }));
  }
}

template <class Fixture>
void a_send_without_receive_harms_nobody() {
  Duo<Fixture> duo;
  duo.connect();
  auto const big = pattern(50'000, 5);
  auto const small = pattern(50, 6);
  std::vector<std::byte> in(50'000), in_small(50);
  b10::Operation lonely, sent, received, late;
  duo.left.link().send(b10::Tag{1}, big.data(), big.size(), lonely);
  duo.right.link().receive(b10::Tag{2}, in_small.data(), in_small.size(), received);
  duo.left.link().send(b10::Tag{2}, small.data(), small.size(), sent);
  REQUIRE(duo.until([&] { return received.done(); }));
  CHECK((in_small == small));
  duo.right.link().receive(b10::Tag{1}, in.data(), in.size(), late);
  REQUIRE(duo.until([&] { return late.done() && lonely.done(); }));
  CHECK((in == big));
}

template <class Fixture>
void controls_arrive_in_order() {
  using T = typename Fixture::Transport;
  Duo<Fixture> duo;
  duo.connect();
  std::string text(T::control_bytes_max, 'x');
  CHECK_FALSE(duo.left.link().control(frame(std::string(T::control_bytes_max + 1, 'y'))));
  for (char i = 0; i < 50; ++i) {
    text[0] = static_cast<char>('0' + i);
    REQUIRE(duo.left.link().control(frame(text)));
    REQUIRE(duo.left.link().control(frame("short")));
  }
  text[0] = 'z';  // it was copied
  REQUIRE(duo.until([&] { return duo.right.controls.size() == 100; }));
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(duo.right.controls[2 * i].size() == T::control_bytes_max);
    CHECK(duo.right.controls[2 * i][0] == static_cast<char>('0' + i));
    CHECK(duo.right.controls[2 * i + 1] == "short");
  }
  REQUIRE(duo.right.link().control(frame("back")));
  REQUIRE(duo.until([&] { return !duo.left.controls.empty(); }));
  CHECK(duo.left.controls[0] == "back");
}

template <class Fixture>
void cancel_ends_an_unmatched_receive() {
  Duo<Fixture> duo;
  duo.connect();
  std::array<std::byte, 8> buffer{}, other{};
  std::array<std::byte, 8> const out{std::byte{9}};
  b10::Operation cancelled, kept, sent;
  duo.right.link().receive(b10::Tag{1}, buffer.data(), 8, cancelled);
  duo.right.link().receive(b10::Tag{2}, other.data(), 8, kept);
  duo.right.link().cancel(cancelled);
  REQUIRE(duo.until([&] { return cancelled.done(); }));
  CHECK(cancelled.status() == b10::OperationStatus::cancelled);
  CHECK(kept.pending());
  duo.right.link().cancel(cancelled);  // again: nothing
  duo.left.link().send(b10::Tag{2}, out.data(), 8, sent);
  REQUIRE(duo.until([&] { return kept.done(); }));
  CHECK(other == out);
}

template <class Fixture>
void retiring_is_seen_by_the_peer() {
  Duo<Fixture> duo;
  duo.connect();
  auto const id = duo.right.link().id();
  duo.left.link().retire();
  std::array<std::byte, 8> buffer{};
  b10::Operation after;
  duo.left.link().send(b10::Tag{1}, buffer.data(), 8, after);
  CHECK(after.status() == b10::OperationStatus::failed);
  CHECK(after.done());
  CHECK_FALSE(duo.left.link().control(frame("x")));
  REQUIRE(duo.until([&] { return !duo.right.downs.empty(); }));
  duo.settle();
  REQUIRE(duo.right.downs.size() == 1);
  CHECK(duo.right.downs[0].link == id);
  CHECK(duo.right.downs[0].how == b10::LinkDown::lost);
  CHECK(duo.left.downs.empty());
}

template <class Fixture>
void bye_is_seen_by_both() {
  Duo<Fixture> duo;
  duo.connect();
  REQUIRE(duo.left.link().control(frame("last words")));
  // On their way before the farewell; how far ahead is the network's business.
  REQUIRE(duo.until([&] { return !duo.right.controls.empty(); }));
  duo.left.link().bye();
  REQUIRE(duo.until([&] { return !duo.left.downs.empty() && !duo.right.downs.empty(); }));
  CHECK(duo.left.downs[0].how == b10::LinkDown::bye);
  CHECK(duo.right.downs[0].how == b10::LinkDown::bye);
  duo.right.links.clear();
  duo.left.links.clear();
  duo.settle();
  CHECK(duo.left.downs.size() == 1);
  CHECK(duo.right.downs.size() == 1);
}

template <class Fixture>
void a_destroyed_link_touches_nothing() {
  Duo<Fixture> duo;
  duo.connect();
  auto const source = pattern(200'000, 7);
  std::vector<std::byte> matched(200'000, std::byte{0xcc}), unmatched(64, std::byte{0xcc});
  b10::Operation sending, receiving, waiting;
  duo.right.link().receive(b10::Tag{2}, unmatched.data(), unmatched.size(), waiting);
  duo.left.link().send(b10::Tag{1}, source.data(), source.size(), sending);
  duo.settle();
  duo.right.link().receive(b10::Tag{1}, matched.data(), matched.size(), receiving);
  duo.right.links.clear();
  CHECK(waiting.pending());
  auto const seen = matched;
  auto const pending = receiving.pending();
  duo.settle();
  CHECK(waiting.pending());
  CHECK(receiving.pending() == pending);
  CHECK((matched == seen));
  CHECK(std::all_of(unmatched.begin(), unmatched.end(),
                    [](std::byte b) { return b == std::byte{0xcc}; }));
  REQUIRE(duo.until([&] { return !duo.left.downs.empty(); }));
  duo.left.links.clear();
}

template <class Fixture>
void a_link_may_be_destroyed_inside_a_handler() {
  Duo<Fixture> duo;
  duo.connect();
  duo.right.drop_link_on_control = true;
  duo.left.drop_link_on_down = true;
  REQUIRE(duo.left.link().control(frame("one")));
  REQUIRE(duo.left.link().control(frame("two")));
  REQUIRE(duo.until([&] { return !duo.left.downs.empty(); }));
  CHECK(duo.left.links.empty());
  CHECK(duo.right.links.empty());
  CHECK(duo.right.controls.size() == 1);
  duo.connect(2);
}

template <class Fixture>
void reconnecting_makes_a_newer_generation() {
  Duo<Fixture> duo;
  duo.connect(1);
  std::array<std::byte, 8> const stale{std::byte{1}};
  std::array<std::byte, 8> const fresh{std::byte{2}};
  std::array<std::byte, 8> in{};
  b10::Operation sent, again, received;
  duo.left.link().send(b10::Tag{9}, stale.data(), 8, sent);
  duo.settle();
  duo.left.links.clear();
  duo.connect(2);
  REQUIRE(duo.left.infos.size() == 2);
  CHECK(duo.left.infos[1].generation > duo.left.infos[0].generation);
  CHECK(duo.left.infos[1].domain == duo.left.infos[0].domain);
  // What the old generation sent never meets a receive of the new one.
  duo.right.link().receive(b10::Tag{9}, in.data(), 8, received);
  duo.settle();
  CHECK(received.pending());
  duo.left.link().send(b10::Tag{9}, fresh.data(), 8, again);
  REQUIRE(duo.until([&] { return received.done(); }));
  CHECK(in == fresh);
}

template <class Fixture>
void waiting_ends() {
  Duo<Fixture> duo;
  duo.connect();
  auto& t = *duo.left.transport;
  t.wait(t.now());  // already there
  auto const until = t.now() + b10::milliseconds(5);
  while (t.now() < until) {
    t.wait(until);
    duo.left.progress();
  }
  // A wake-up ends it, before or during: else this would take an hour.
  auto const far = t.now() + b10::seconds(3600);
  duo.settle();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) t.wake();
  });
  for (int i = 0; i < 20; ++i) {
    t.wait(far);
    duo.left.progress();
  }
  stop.store(true);
  other.join();
}

template <class Fixture>
void a_wake_up_before_the_wait_counts() {
  Duo<Fixture> duo;  // with no link, whose upkeep could end the wait as well
  auto& t = *duo.left.transport;
  duo.settle();
  auto const called = t.now();
  t.wake();
  t.wait(called + b10::seconds(3600));
  CHECK(t.now() < called + b10::seconds(30));
}

template <class Fixture>
void waiting_ends_when_a_message_comes() {
  Duo<Fixture> duo;
  duo.connect();
  auto& t = *duo.left.transport;
  REQUIRE(duo.right.link().control(frame("wake up")));
  auto const far = t.now() + b10::seconds(3600);
  while (duo.left.controls.empty()) {
    duo.right.progress();
    t.wait(far);
    duo.left.progress();
  }
  CHECK(duo.left.controls[0] == "wake up");
}

/// Every model of b10::Transport passes these. `Fixture`: see Duo.
template <class Fixture>
void transport() {
  static_assert(b10::Transport<typename Fixture::Transport>);
  SECTION("connecting gives both sides one link: same domain, same new generation") {
    connecting_gives_both_the_same_link<Fixture>();
  }
  SECTION("a generation is never given out twice, not even when both connect at once") {
    a_generation_is_never_given_out_twice<Fixture>();
  }
  SECTION("a connect that fails is answered once, with a sentence") {
    refusals_and_dead_ends_are_told_once<Fixture>();
  }
  SECTION("bytes arrive exactly, whichever side comes first") {
    for (std::size_t const n : {0u, 1u, 7999u, 8000u, 8001u, 65'536u, 3'000'001u}) {
      bytes_arrive_exactly<Fixture>(n, true);
      bytes_arrive_exactly<Fixture>(n, false);
    }
  }
  SECTION("equal tags match in order") { equal_tags_match_in_order<Fixture>(); }
  SECTION("tags match in all 64 bits") { tags_match_in_full<Fixture>(); }
  SECTION("a short message tells its length, a long one is truncated and never overruns") {
    lengths_are_told<Fixture>();
  }
  SECTION("a send with no receive waits and harms nobody") {
    a_send_without_receive_harms_nobody<Fixture>();
  }
  SECTION("control frames are copied and arrive in order") { controls_arrive_in_order<Fixture>(); }
  SECTION("cancel ends a receive that has not matched, and no other") {
    cancel_ends_an_unmatched_receive<Fixture>();
  }
  SECTION("retiring fails later posts at once and is told to the peer only") {
    retiring_is_seen_by_the_peer<Fixture>();
  }
  SECTION("bye ends the link in order on both sides, once") { bye_is_seen_by_both<Fixture>(); }
  SECTION("a destroyed link touches no buffer and no operation") {
    a_destroyed_link_touches_nothing<Fixture>();
  }
  SECTION("a link may be destroyed inside any handler call") {
    a_link_may_be_destroyed_inside_a_handler<Fixture>();
  }
  SECTION("reconnecting makes a newer generation that the old one cannot reach") {
    reconnecting_makes_a_newer_generation<Fixture>();
  }
  SECTION("wait returns by its instant and on wake") { waiting_ends<Fixture>(); }
  SECTION("a wake-up that comes before the wait ends it") {
    a_wake_up_before_the_wait_counts<Fixture>();
  }
  SECTION("wait returns when a message comes") { waiting_ends_when_a_message_comes<Fixture>(); }
}

}  // namespace laws
