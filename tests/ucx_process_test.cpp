#include <b10/transport/ucx.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#include "laws/transport.hpp"
#include "support/catch.hpp"
#include "support/raw_peer.hpp"

using namespace b10;
using transport::Ucx;

namespace {

constexpr std::size_t payload_bytes = 8u << 20;

/// The other process: listens, tells its address and what it sees through a pipe, and obeys control
/// frames: "send" a payload under tag 1, "bye", "exit".
struct Child {
  int out;
  std::vector<std::unique_ptr<Ucx::Link>> links{};
  std::vector<std::byte> payload = laws::pattern(payload_bytes, 1);
  Operation sending{};
  bool exit = false;

  Generation last_generation(Hello const&, PairDomain) noexcept { return {}; }
  std::string refuse(Hello const&, std::string_view) { return {}; }
  void on_link(Ucx::Link&& link, LinkInfo const&, ConnectId) {
    links.push_back(std::make_unique<Ucx::Link>(std::move(link)));
  }
  void on_connect_failed(ConnectId, std::string_view) {}
  void on_link_down(LinkId id, LinkDown how, std::string_view) noexcept {
    say(how == LinkDown::bye ? "bye\n" : how == LinkDown::lost ? "lost\n" : "silent\n");
    std::erase_if(links, [&](auto const& l) { return l->id() == id; });
  }
  void on_control(LinkId, std::span<std::byte const> frame) {
    auto const text = as_text(frame);
    if (text == "send") links.back()->send(Tag{1}, payload.data(), payload.size(), sending);
    if (text == "bye") links.back()->bye();
    if (text == "exit") exit = true;
  }
  void say(std::string const& line) const noexcept {
    [[maybe_unused]] auto const n = ::write(out, line.data(), line.size());
  }

  static void run(int out, transport::ucx::Options const& o, std::uint64_t incarnation) {
    Child child{out};
    Ucx node(o, support::hello("child", incarnation));
    child.say(node.address() + "\n");
    // An orphan ends by itself.
    auto const limit = steady_now() + seconds(60);
    while (!child.exit && steady_now() < limit) {
      if (node.progress(child) == 0) node.wait(steady_now() + milliseconds(100));
    }
    child.links.clear();
  }
};

/// A child process from the side of its parent. Made before the parent makes a transport: UCX's
/// helper thread does not live on in a child. It makes its own transport when told where to listen.
class Process {
 public:
  Process(transport::ucx::Options o, std::uint64_t incarnation) {
    int ends[2], orders[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(orders, O_CLOEXEC) != 0) FAIL("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::close(orders[1]);
      char listen[64] = {};
      if (::read(orders[0], listen, sizeof listen - 1) <= 0) _exit(1);
      o.listen = listen;
      try {
        Child::run(ends[1], o, incarnation);
      } catch (std::exception const& e) {
        std::string const line = std::string(e.what()) + "\n";
        [[maybe_unused]] auto const n = ::write(ends[1], line.data(), line.size());
      }
      _exit(0);
    }
    ::close(ends[1]);
    ::close(orders[0]);
    out_ = transport::ucx::Fd(orders[1]);
    in_ = transport::ucx::Fd(ends[0]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  Process(Process&&) = delete;
  ~Process() { end(SIGKILL); }

  void signal(int s) const { kill(pid_, s); }
  void end(int s) {
    if (pid_ <= 0) return;
    kill(pid_, SIGCONT);
    kill(pid_, s);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  /// Waits until the process is really stopped.
  void stop() const {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }
  /// Next line that it said, empty if there is none yet.
  std::string line() {
    char buffer[256];
    auto const n = ::read(in_.get(), buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
    auto const at = text_.find('\n');
    if (at == std::string::npos) return {};
    auto const first = text_.substr(0, at);
    text_.erase(0, at + 1);
    return first;
  }
  /// Lets it listen there; the address that it has got.
  std::string start(std::string const& listen = "127.0.0.1:0") {
    if (::write(out_.get(), listen.data(), listen.size()) < 0) FAIL("the child has gone");
    std::string a;
    auto const limit = steady_now() + seconds(20);
    while (a.empty() && steady_now() < limit) a = line();
    return a;
  }

 private:
  pid_t pid_ = -1;
  transport::ucx::Fd in_{};
  transport::ucx::Fd out_{};
  std::string text_{};
};

struct Parent {
  explicit Parent(transport::ucx::Options const& o) : transport(o, support::hello("parent", 1)) {}
  Ucx transport;
  laws::Node<Ucx> node{transport};
  std::vector<std::byte> expected = laws::pattern(payload_bytes, 1);

  template <class Done>
  [[nodiscard]] bool until(Done done) {
    auto const limit = steady_now() + seconds(20);
    while (!done()) {
      if (node.progress() == 0) transport.wait(steady_now() + milliseconds(10));
      if (steady_now() > limit) return false;
    }
    return true;
  }
  void connect(std::string const& address) {
    auto const n = node.links.size();
    transport.connect(ConnectId{1}, address, transport.now() + seconds(15));
    REQUIRE(until([&] { return node.links.size() > n || !node.failures.empty(); }));
    if (!node.failures.empty()) FAIL(node.failures.back().second);
  }
  bool fetch(Ucx::Link& link) {
    std::vector<std::byte> in(payload_bytes);
    Operation received;
    link.receive(Tag{1}, in.data(), in.size(), received);
    if (!link.control(laws::frame("send"))) return false;
    bool const done = until([&] { return received.done(); });
    return done && received.status() == OperationStatus::ok && in == expected;
  }
};

transport::ucx::Options quick(Ucx::Wire wire = Ucx::Wire::tcp) {
  auto o = support::options(wire);
  o.heartbeat = milliseconds(100);
  o.heartbeat_misses = 10;  // building and comparing payloads takes a while
  return o;
}

}  // namespace

TEST_CASE("C17 C51 a killed peer is lost, and its successor at the same address is met anew",
          "[ucx][C16]") {
  Process first(quick(), 2);
  Process second(quick(), 3);
  auto const address = first.start();
  Parent parent(quick());
  parent.connect(address);
  CHECK(parent.fetch(parent.node.link()));

  // Killed in the middle of a message.
  std::vector<std::byte> in(payload_bytes, std::byte{0xcc});
  Operation received;
  parent.node.link().receive(Tag{1}, in.data(), in.size(), received);
  REQUIRE(parent.node.link().control(laws::frame("send")));
  REQUIRE(parent.until([&] { return received.done() || in[1] == parent.expected[1]; }));
  first.end(SIGKILL);
  REQUIRE(parent.until([&] { return !parent.node.downs.empty(); }));
  CHECK(parent.node.downs[0].how == LinkDown::lost);
  CHECK((received.pending() || received.status() != OperationStatus::ok || in == parent.expected));
  parent.node.links.clear();
  CHECK(parent.node.downs.size() == 1);

  REQUIRE(second.start(address) == address);
  parent.connect(address);
  CHECK(parent.fetch(parent.node.link()));
  REQUIRE(parent.node.infos.size() == 2);
  CHECK(parent.node.infos[1].domain != parent.node.infos[0].domain);
  REQUIRE(parent.node.link().control(laws::frame("exit")));
  REQUIRE(parent.until([&] { return parent.node.downs.size() == 2; }));
  parent.node.links.clear();
}

TEST_CASE("a stopped peer is silent, learns of it when it runs again, and harms no other",
          "[ucx][K8]") {
  Process sick(quick(), 2);
  Process healthy(quick(), 3);
  auto const sick_address = sick.start();
  auto const healthy_address = healthy.start();
  Parent parent(quick());
  parent.connect(sick_address);
  auto& first = parent.node.link();
  parent.connect(healthy_address);
  auto& second = parent.node.link();
  auto const id = first.id();

  sick.stop();
  std::vector<std::byte> in(payload_bytes);
  Operation never;
  first.receive(Tag{1}, in.data(), in.size(), never);
  REQUIRE(first.control(laws::frame("send")));
  CHECK(parent.fetch(second));
  REQUIRE(parent.until([&] { return !parent.node.downs.empty(); }));
  CHECK(parent.node.downs[0].link == id);
  CHECK(parent.node.downs[0].how == LinkDown::silent);
  CHECK(never.pending());
  first.retire();
  CHECK(parent.fetch(second));

  sick.signal(SIGCONT);
  std::string said;
  REQUIRE(parent.until([&] {
    said = sick.line();
    return !said.empty();
  }));
  CHECK((said == "lost" || said == "silent"));
  CHECK(parent.fetch(second));
  CHECK(parent.node.downs.size() == 1);
  parent.node.links.clear();
}

TEST_CASE("two processes end in order", "[ucx]") {
  for (auto const wire : {Ucx::Wire::tcp, Ucx::Wire::shared_memory}) {
    Process child(quick(wire), 2);
    auto const address = child.start();
    Parent parent(quick(wire));
    parent.connect(address);
    CHECK(parent.fetch(parent.node.link()));
    REQUIRE(parent.node.link().control(laws::frame("bye")));
    REQUIRE(parent.until([&] { return !parent.node.downs.empty(); }));
    CHECK(parent.node.downs[0].how == LinkDown::bye);
    std::string said;
    REQUIRE(parent.until([&] {
      said = child.line();
      return !said.empty();
    }));
    CHECK(said == "bye");
    parent.node.links.clear();
  }
}

TEST_CASE("a forked child that keeps the descriptors hides no end", "[ucx]") {
  Ucx one(quick(), support::hello("one", 1));
  Ucx two(quick(), support::hello("two", 2));
  laws::Node<Ucx> left(one), right(two);
  one.connect(ConnectId{1}, two.address(), one.now() + seconds(15));
  auto const until = [&](auto done) {
    auto const limit = steady_now() + seconds(20);
    while (!done() && steady_now() < limit) {
      left.progress();
      right.progress();
    }
    return done();
  };
  REQUIRE(until([&] { return !left.links.empty() && !right.links.empty(); }));
  auto const holder = fork();
  if (holder == 0) {
    for (;;) pause();
  }
  left.links.clear();
  bool const seen = until([&] { return !right.downs.empty(); });
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  REQUIRE(seen);
  CHECK(right.downs[0].how == LinkDown::lost);
  right.links.clear();
}
