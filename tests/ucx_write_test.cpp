// WRITE between two real processes over real UCX: killed, stopped and restarted peers at chosen
// protocol steps.
#include <b10/transceiver.hpp>

#include <csignal>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/held_copy.hpp"

using namespace b10;

namespace {

constexpr std::uint64_t slice = 64 * 1024;
constexpr std::byte canary{0xA5};
using Node = Transceiver<staging::Host<slicing::Pipelined<slice, 3>, copy::Held>>;
using Wire = transport::ucx::Wire;

std::byte pattern(std::uint64_t request, std::uint64_t i) {
  return static_cast<std::byte>((request * 131 + i * 7 + i / 253) & 0xff);
}

/// The same, whose quarantine a test can see the end of.
using QuickNode = Transceiver<staging::Host<slicing::Pipelined<slice, 3>, copy::Held>, tag::Hashed,
                              completion::CopyEvent, quarantine::TtlMs<1500>>;

template <class N = Node>
typename N::Config config(char const* name, Wire wire, copy::Held const& copies,
                          std::string const& listen) {
  typename N::Config c;
  c.name = name;
  c.staging.buffer_bytes = slice;
  c.staging.buffers = 48;
  c.staging.page_lock = staging::PageLock::never;
  c.staging.copies = copies;
  c.transport.key = "a test key of enough bytes";
  c.transport.listen = listen;
  c.transport.wire = wire;
  c.transport.heartbeat = milliseconds(200);
  c.quarantine_bytes_max = c.generations_penned_max = ~std::uint64_t{0};
  return c;
}

/// What the parent tells the child, and what the child answers.
struct Order {
  std::uint64_t request;
  std::uint64_t address;
  std::uint64_t bytes;
  std::int64_t deadline_ns;
  std::uint64_t gathers;  ///< let this many gathers run, hold the next
};
struct Answer {
  enum class What : std::uint32_t { held, landed, failed } what;
  std::uint32_t reason;
};

/// Both ends of a socket pair, with bounded reads.
struct Pipe {
  int fd = -1;
  template <class M>
  void put(M const& m) const {
    if (write(fd, &m, sizeof m) != static_cast<ssize_t>(sizeof m)) _exit(3);
  }
  template <class M>
  [[nodiscard]] bool get(M& m, int limit_ms = 20'000) const {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, limit_ms) > 0 && read(fd, &m, sizeof m) == static_cast<ssize_t>(sizeof m);
  }
};

constexpr std::uint32_t touched_own_memory = 255;  // as the reason in an Answer

/// A sender process: takes orders until its parent goes. `own` is memory of this process that no
/// order concerns, whatever addresses it names.
[[noreturn]] void sender(Pipe pipe, Wire wire, std::span<std::byte const> own = {}) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char address[64] = {};
  if (!pipe.get(address)) _exit(1);
  copy::Held copies;
  auto const control = copies.control();
  Node node(config("sender", wire, copies, "127.0.0.1:0"));
  PeerId peer{};
  try {
    peer = node.connect(address, seconds(10));
  } catch (Error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    _exit(2);
  }
  for (Order o; pipe.get(o, 60'000);) {
    std::vector<std::byte> source(o.bytes);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = pattern(o.request, i);
    std::vector<LocalSpan> const s{{source.data(), o.bytes}};
    std::vector<RemoteSpan> const d{{o.address, o.bytes}};
    std::size_t const before = control->started();
    bool told = false;
    control->hold(copy::CopyKind::gather);
    auto const t = node.write(peer, {.request = RequestId{o.request},
                                     .sources = s,
                                     .destinations = d,
                                     .deadline = Duration{o.deadline_ns}});
    while (!t.outcome()) {
      for (std::size_t i = before; i < control->started(); ++i) {
        if (i - before < o.gathers) {
          control->release(i);
        } else if (!told) {
          told = true;
          pipe.put(Answer{Answer::What::held, 0});
        }
      }
      (void)t.wait(milliseconds(1));
    }
    control->release_all();
    auto const out = *t.outcome();
    bool const untouched = std::all_of(own.begin(), own.end(), [](auto b) { return b == canary; });
    pipe.put(Answer{out.ok() && untouched ? Answer::What::landed : Answer::What::failed,
                    untouched ? static_cast<std::uint32_t>(out.reason) : touched_own_memory});
  }
  _exit(0);
}

/// A child process; killed and reaped at the end.
struct Child {
  pid_t pid = -1;
  Pipe pipe;
  template <class Run>
  explicit Child(Run run) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    pid = fork();
    if (pid == 0) {
      close(fds[0]);
      run(Pipe{fds[1]});
      _exit(0);
    }
    close(fds[1]);
    pipe.fd = fds[0];
  }
  ~Child() { end(); }
  Child(Child const&) = delete;
  void end() {
    if (pid < 0) return;
    kill(pid, SIGCONT);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(pipe.fd);
    pid = -1;
  }
};

/// Bounded: false after 20 s.
template <class Done>
bool eventually(Done done) {
  auto const until = steady_now() + seconds(20);
  while (!done())
    if (steady_now() > until)
      return false;
    else
      sched_yield();
  return true;
}

constexpr std::uint64_t everything = 1'000'000;
constexpr std::size_t chunks = 8;
constexpr std::size_t bytes = chunks * slice;
constexpr std::size_t pool_bytes = bytes + 2 * slice;

/// The parent: a receiver with a pool of which only the middle is granted.
template <class N = Node>
struct Receiver {
  explicit Receiver(Wire wire, std::byte* place = nullptr)
      : at(place ? place : pool.data()), node(config<N>("receiver", wire, copies, "127.0.0.1:0")) {
    control->run_freely(copy::CopyKind::scatter);
    node.register_memory({at, pool.size()});
  }
  [[nodiscard]] std::byte* middle() { return at + slice; }
  void clear() { std::fill(at, at + pool.size(), canary); }
  [[nodiscard]] bool untouched() const {
    return std::all_of(at, at + pool.size(), [](std::byte x) { return x == canary; });
  }
  void introduce(Child const& child) {
    char address[64] = {};
    std::strncpy(address, node.address().c_str(), sizeof address - 1);
    child.pipe.put(address);
  }
  [[nodiscard]] Grant grant(std::uint64_t request) {
    clear();
    std::vector<LocalSpan> const d{{middle(), bytes}};
    return node.grant(RequestId{request}, d, seconds(60));
  }
  [[nodiscard]] Order order(std::uint64_t request, Duration deadline, std::uint64_t gathers) {
    return {request, reinterpret_cast<std::uint64_t>(middle()), bytes, deadline.ns, gathers};
  }
  [[nodiscard]] bool margins_untouched() const {
    for (std::size_t i = 0; i < slice; ++i)
      if (at[i] != canary || at[slice + bytes + i] != canary) return false;
    return true;
  }
  [[nodiscard]] bool exact(std::uint64_t request) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (middle()[i] != pattern(request, i)) return false;
    return margins_untouched();
  }
  /// A whole transfer from that child lands exactly.
  void expect_exact(Child const& child, std::uint64_t request) {
    auto const g = grant(request);
    child.pipe.put(order(request, seconds(20), everything));
    auto const o = g.next(seconds(30));
    REQUIRE(o);
    INFO(o->why);
    CHECK(o->ok());
    CHECK(exact(request));
    Answer a{};
    REQUIRE(child.pipe.get(a, 30'000));
    CHECK(a.what == Answer::What::landed);
  }

  copy::Held copies{};
  std::shared_ptr<copy::HeldControl> control = copies.control();
  std::vector<std::byte> pool = std::vector<std::byte>(pool_bytes, canary);
  std::byte* at;
  N node;
};

void kill_at(Wire wire, std::uint64_t gathers) {
  Child first([wire](Pipe p) { sender(p, wire); });
  Child second([wire](Pipe p) { sender(p, wire); });
  Receiver<> r(wire);
  r.introduce(first);
  r.expect_exact(first, 1);

  auto g = r.grant(2);
  first.pipe.put(r.order(2, seconds(30), gathers));
  Answer a{};
  REQUIRE(first.pipe.get(a));
  REQUIRE(a.what == Answer::What::held);
  kill(first.pid, SIGKILL);
  auto const o = g.next(seconds(30));
  REQUIRE(o);  // well before its deadline
  CHECK(o->status == Status::failed);
  CHECK(o->reason == Reason::peer_lost);
  CHECK(r.margins_untouched());
  CHECK(g.revoke(seconds(5)));

  // Another process under the same name takes over.
  r.introduce(second);
  r.expect_exact(second, 3);
  CHECK(r.node.metrics().received.landed.get() == 2);
  CHECK(r.node.metrics().received.failed() == 1);
}

void stop_at(Wire wire, std::uint64_t gathers) {
  Child child([wire](Pipe p) { sender(p, wire); });
  Receiver<> r(wire);
  r.introduce(child);
  r.expect_exact(child, 1);

  auto g = r.grant(2);
  child.pipe.put(r.order(2, milliseconds(700), gathers));
  Answer a{};
  REQUIRE(child.pipe.get(a));
  REQUIRE(a.what == Answer::What::held);
  kill(child.pid, SIGSTOP);
  auto const o = g.next(seconds(30));
  REQUIRE(o);
  CHECK_FALSE(o->ok());
  REQUIRE(g.revoke(seconds(5)));
  // The blocks are free again; whatever the resumed sender still does must not reach them.
  r.clear();
  kill(child.pid, SIGCONT);
  REQUIRE(child.pipe.get(a, 30'000));
  CHECK(a.what == Answer::What::failed);
  CHECK(r.untouched());
  r.expect_exact(child, 3);
}

/// Where a receiver process is, and its pool.
struct Where {
  char address[64];
  std::uint64_t pool;
};

/// A receiver process: grants, waits, checks and reports, request by request.
[[noreturn]] void receiver(Pipe pipe, std::string const& listen) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  copy::Held copies;
  copies.control()->run_freely(copy::CopyKind::scatter);
  Node node(config("receiver", Wire::tcp, copies, listen));
  std::vector<std::byte> pool(bytes, canary);
  node.register_memory({pool.data(), pool.size()});
  Where w{};
  std::strncpy(w.address, node.address().c_str(), sizeof w.address - 1);
  w.pool = reinterpret_cast<std::uint64_t>(pool.data());
  for (std::uint64_t request = 1;; ++request) {
    std::vector<LocalSpan> const d{{pool.data(), bytes}};
    auto const g = node.grant(RequestId{request}, d, seconds(60));
    pipe.put(w);
    auto const o = g.next(seconds(60));
    std::uint64_t ok = o && o->ok() ? request : 0;
    for (std::size_t i = 0; i < bytes && ok; ++i)
      if (pool[i] != pattern(request, i)) ok = 0;
    pipe.put(ok);
  }
}

}  // namespace

// One process a case: a child must be forked before its parent has ever made a transport.
TEMPLATE_TEST_CASE_SIG(
    "S5 C53 two processes: kill -9 of the sender at each step costs one transfer and nothing else",
    "[ucx]", ((Wire W, unsigned Gathers), W, Gathers), (Wire::tcp, 0), (Wire::tcp, 1),
    (Wire::tcp, 7), (Wire::shared_memory, 0), (Wire::shared_memory, 4)) {
  kill_at(W, Gathers);
}

TEMPLATE_TEST_CASE_SIG(
    "S5 C53 two processes: a stopped sender costs one transfer, its late bytes reach no block",
    "[ucx]", ((Wire W, unsigned Gathers), W, Gathers), (Wire::tcp, 0), (Wire::tcp, 3),
    (Wire::shared_memory, 0), (Wire::shared_memory, 3)) {
  stop_at(W, Gathers);
}

TEMPLATE_TEST_CASE_SIG(
    "C08 two processes: a sender that sleeps through deadline and quarantine wakes to no harm",
    "[ucx]", ((Wire W, unsigned Gathers), W, Gathers), (Wire::tcp, 0), (Wire::tcp, 3),
    (Wire::shared_memory, 3)) {
  Child child([](Pipe p) { sender(p, W); });
  Receiver<QuickNode> r(W);
  r.introduce(child);
  r.expect_exact(child, 1);
  auto const& m = r.node.metrics();
  auto const whole = m.staging_total.get();

  auto g = r.grant(2);
  child.pipe.put(r.order(2, milliseconds(700), Gathers));
  Answer a{};
  REQUIRE(child.pipe.get(a));
  kill(child.pid, SIGSTOP);
  auto const o = g.next(seconds(30));
  REQUIRE(o);
  CHECK_FALSE(o->ok());
  REQUIRE(g.revoke(seconds(5)));
  r.clear();
  // A count, not a gauge: on a busy machine the time in quarantine may pass between two looks.
  REQUIRE(eventually([&] { return m.sweeps.get() > 0 && m.generations_penned.get() == 0; }));
  REQUIRE(eventually([&] { return m.staging_free.get() == whole; }));  // by fresh memory
  kill(child.pid, SIGCONT);
  REQUIRE(child.pipe.get(a, 30'000));
  CHECK(a.what == Answer::What::failed);
  CHECK(r.untouched());
  r.expect_exact(child, 3);
}

TEST_CASE("C21 two processes: an address of one is never followed in the other", "[ucx]") {
  // The same place is mapped in both, as memory of their own.
  void* const memory =
      mmap(nullptr, pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  std::span const place(static_cast<std::byte*>(memory), pool_bytes);
  std::fill(place.begin(), place.end(), canary);
  {
    Child child([&](Pipe p) { sender(p, Wire::tcp, place); });
    Receiver<> r(Wire::tcp, place.data());
    r.introduce(child);
    r.expect_exact(child, 1);  // and the child's own place is as it was
    r.expect_exact(child, 2);
  }
  munmap(memory, pool_bytes);
}

TEST_CASE("C47 two processes: a send that nobody receives ends at once for its caller", "[ucx]") {
  // The child receives and stops in the middle of its first scatter, so it posts no receive for
  // the later chunks.
  Child child([](Pipe p) {
    copy::Held copies;
    Node node(config("receiver", Wire::tcp, copies, "127.0.0.1:0"));
    std::vector<std::byte> pool(bytes, canary);
    node.register_memory({pool.data(), pool.size()});
    Where w{};
    std::strncpy(w.address, node.address().c_str(), sizeof w.address - 1);
    w.pool = reinterpret_cast<std::uint64_t>(pool.data());
    std::vector<LocalSpan> const d{{pool.data(), bytes}};
    auto const g = node.grant(RequestId{1}, d, seconds(60));
    p.put(w);
    while (copies.control()->started() == 0) sched_yield();
    p.put(w);
    (void)p.get(w, 60'000);
    copies.control()->release_all();
  });
  Where w{};
  REQUIRE(child.pipe.get(w));
  copy::Held copies;
  copies.control()->run_freely(copy::CopyKind::gather);
  Node node(config("sender", Wire::tcp, copies, "127.0.0.1:0"));
  PeerId const peer = node.connect(w.address, seconds(10));
  std::vector<std::byte> source(bytes, std::byte{1});
  std::vector<LocalSpan> const s{{source.data(), bytes}};
  std::vector<RemoteSpan> const d{{w.pool, bytes}};
  auto const t = node.write(
      peer, {.request = RequestId{1}, .sources = s, .destinations = d, .deadline = seconds(60)});
  REQUIRE(child.pipe.get(w));
  REQUIRE(eventually([&] { return copies.control()->started() > 3; }));  // beyond the window
  t.cancel();
  auto const o = t.wait(seconds(20));
  REQUIRE(o);
  CHECK(o->status == Status::cancelled);
  CHECK(o->sources_quiescent);
  // What UCX may still read of ours stays out of circulation.
  REQUIRE(eventually([&] { return node.metrics().staging_quarantined.get() > 0; }));
  CHECK(node.metrics().sweeps.get() == 1);
  child.pipe.put(w);
}

TEST_CASE(
    "C26 memory of a cancelled transfer is unmapped the moment that it is quiet, again and again",
    "[ucx]") {
  using Brief = Transceiver<staging::Host<slicing::Pipelined<slice, 3>, copy::Held>, tag::Hashed,
                            completion::CopyEvent, quarantine::TtlMs<100>>;
  copy::Held gathers, scatters;
  gathers.control()->run_freely(copy::CopyKind::gather);
  Brief sender(config<Brief>("sender", Wire::tcp, gathers, "127.0.0.1:0"));
  Brief receiver(config<Brief>("receiver", Wire::tcp, scatters, "127.0.0.1:0"));
  PeerId const peer = sender.connect(receiver.address(), seconds(10));
  for (std::uint64_t round = 1; round <= 50; ++round) {
    std::byte* pools[2];  // the sender's, the receiver's
    for (auto*& pool : pools) {
      void* const memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      REQUIRE(memory != MAP_FAILED);
      pool = static_cast<std::byte*>(memory);
    }
    std::vector<LocalSpan> const to{{pools[1], bytes}}, from{{pools[0], bytes}};
    receiver.register_memory(to[0]);
    auto g = std::make_optional(receiver.grant(RequestId{round}, to, seconds(60)));
    scatters.control()->hold(copy::CopyKind::scatter);
    auto const started = scatters.control()->started();
    std::vector<RemoteSpan> const d{as_remote(to[0])};
    auto const t = sender.write(
        peer,
        {.request = RequestId{round}, .sources = from, .destinations = d, .deadline = seconds(60)});
    REQUIRE(eventually([&] { return scatters.control()->started() > started; }));  // chunk 1 of 8
    t.cancel();
    REQUIRE(t.wait(seconds(20)));
    REQUIRE(eventually([&] { return t.sources_released(); }));
    munmap(pools[0], bytes);
    REQUIRE_FALSE(g->revoke({}));  // draining
    CHECK_THROWS_AS(receiver.deregister_memory(to[0]), Error);
    scatters.control()->run_freely(copy::CopyKind::scatter);
    scatters.control()->release_all();
    REQUIRE(g->revoke(seconds(20)));
    receiver.deregister_memory(to[0]);
    munmap(pools[1], bytes);
  }
}

TEST_CASE("C77 two processes: a node ends in time though its peer is stopped", "[ucx]") {
  Child child([](Pipe p) { receiver(p, "127.0.0.1:0"); });
  Where w{};
  REQUIRE(child.pipe.get(w));
  copy::Held copies;
  copies.control()->run_freely(copy::CopyKind::gather);
  auto node = std::make_unique<Node>(config("sender", Wire::tcp, copies, "127.0.0.1:0"));
  PeerId const peer = node->connect(w.address, seconds(10));
  kill(child.pid, SIGSTOP);
  std::vector<std::byte> source(bytes, std::byte{1});
  std::vector<LocalSpan> const s{{source.data(), bytes}};
  std::vector<RemoteSpan> const d{{w.pool, bytes}};
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 1; i <= 3; ++i)
    transfers.push_back(node->write(
        peer,
        {.request = RequestId{i}, .sources = s, .destinations = d, .deadline = seconds(600)}));
  auto const limit = steady_now() + seconds(20);
  node.reset();
  CHECK(steady_now() < limit);
  for (auto const& t : transfers) {
    REQUIRE(t.outcome());
    CHECK_FALSE(t.outcome()->ok());
  }
}

TEST_CASE("S2 two processes: RESULT waits for the last copy event", "[ucx]") {
  Child child([](Pipe p) { sender(p, Wire::tcp); });
  Receiver<> r(Wire::tcp);
  r.introduce(child);
  auto const g = r.grant(1);
  r.control->hold(copy::CopyKind::scatter);
  child.pipe.put(r.order(1, seconds(30), everything));
  Answer a{};
  for (std::size_t i = 0; i + 1 < chunks; ++i) {
    REQUIRE(eventually([&] { return r.control->started() > i; }));
    r.control->release(i);
  }
  REQUIRE(eventually([&] { return r.control->started() == chunks; }));
  CHECK_FALSE(child.pipe.get(a, 300));  // nothing while one scatter is held
  r.control->release(chunks - 1);
  REQUIRE(child.pipe.get(a));
  CHECK(a.what == Answer::What::landed);
  CHECK(r.exact(1));
}

TEST_CASE(
    "S7 C18 two processes: a receiver that restarts at the same address fails one transfer only",
    "[ucx]") {
  // Here the parent sends and the child receives.
  auto first = std::make_unique<Child>([](Pipe p) { receiver(p, "127.0.0.1:0"); });
  Where w{};
  REQUIRE(first->pipe.get(w));
  copy::Held copies;
  auto const control = copies.control();
  control->run_freely(copy::CopyKind::gather);
  // Forked before this process starts threads: it waits for its address before it listens.
  Child second([&](Pipe p) {
    char address[64] = {};
    if (!p.get(address, 60'000)) _exit(1);
    receiver(p, address);
  });
  Node node(config("sender", Wire::tcp, copies, "127.0.0.1:0"));
  PeerId const peer = node.connect(w.address, seconds(10));
  auto write = [&](std::uint64_t request, std::uint64_t to) {
    std::vector<std::byte> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = pattern(request, i);
    std::vector<LocalSpan> const s{{source.data(), bytes}};
    std::vector<RemoteSpan> const d{{to, bytes}};
    auto t = node.write(
        peer,
        {.request = RequestId{request}, .sources = s, .destinations = d, .deadline = seconds(20)});
    auto const o = t.wait(seconds(30));
    REQUIRE(o);
    return *o;
  };
  CHECK(write(1, w.pool).ok());
  std::uint64_t ok = 0;
  REQUIRE(first->pipe.get(ok));
  CHECK(ok == 1);
  char address[64] = {};
  std::strncpy(address, w.address, sizeof address - 1);
  first->end();
  second.pipe.put(address);
  REQUIRE(second.pipe.get(w));
  CHECK(std::string(w.address) == address);
  Outcome o = write(1, w.pool);
  if (!o.ok()) {  // at most one transfer may pay for the restart
    o = write(1, w.pool);
  }
  INFO(o.why);
  CHECK(o.ok());
  REQUIRE(second.pipe.get(ok));
  CHECK(ok == 1);
}
