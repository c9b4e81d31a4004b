#include <b10/transport/ucx.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "laws/transport.hpp"
#include "support/catch.hpp"
#include "support/raw_peer.hpp"

using namespace b10;
using transport::Ucx;

// A peer is killed after each number of steps of meeting and of a first exchange. Between two steps
// of the one that is going to die, the other one does all that it can: no clock takes part.

namespace {

enum class Connects : std::uint8_t { doomed, survivor, both };

constexpr std::size_t payload_bytes = 64u << 10;  // several fragments, by rendezvous
constexpr int steps_max = 200;

/// What runs in both processes: once linked, sends a payload and receives one.
struct Node {
  Node(Ucx::Wire wire, char const* name, std::uint64_t incarnation)
      : transport(support::options(wire), support::hello(name, incarnation)) {}
  ~Node() { links.clear(); }
  Node(Node const&) = delete;
  Node& operator=(Node const&) = delete;

  Generation last_generation(Hello const&, PairDomain) noexcept { return floor; }
  std::string refuse(Hello const&, std::string_view) { return {}; }
  void on_link(Ucx::Link&& link, LinkInfo const& info, ConnectId) {
    floor = std::max(floor, info.generation);
    auto& made = links.emplace_back(std::make_unique<Ucx::Link>(std::move(link)));
    if (links.size() > 1) return;
    made->receive(Tag{1}, in.data(), in.size(), received);
    made->control(laws::frame("a word"));
    made->send(Tag{1}, out.data(), out.size(), sent);
  }
  void on_connect_failed(ConnectId, std::string_view) noexcept { failed = true; }
  void on_link_down(LinkId, LinkDown, std::string_view) noexcept {}
  void on_control(LinkId, std::span<std::byte const>) {}

  void connect(std::string_view address) {
    transport.connect(ConnectId{1}, address, transport.now() + seconds(15));
  }
  void step() {
    transport.progress(*this);
    transport.wait(transport.now());  // the next step looks at the sockets again
  }
  [[nodiscard]] bool exchanged() const {
    return sent.status() == OperationStatus::ok && received.status() == OperationStatus::ok &&
           in == out;
  }

  Ucx transport;
  std::vector<std::byte> out = laws::pattern(payload_bytes, 1);
  std::vector<std::byte> in = std::vector<std::byte>(payload_bytes);
  Operation sent{};
  Operation received{};
  Generation floor{};
  bool failed = false;
  std::vector<std::unique_ptr<Ucx::Link>> links{};
};

/// One end of a line between the two processes; what cannot be said ends its process.
struct Line {
  transport::ucx::Fd fd;
  void say(std::string const& text) const {
    if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(0);
  }
  [[nodiscard]] std::string hear() const {
    char buffer[64];
    auto const n = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (n <= 0) _exit(0);
    return {buffer, static_cast<std::size_t>(n)};
  }
};

/// Takes one step for each word, and answers whether it has exchanged its payloads.
[[noreturn]] void be_killed(Line const& line, Ucx::Wire wire, Connects connects) {
  Node node(wire, "doomed", 2);
  line.say(node.transport.address());
  auto const survivor = line.hear();
  if (connects != Connects::survivor) node.connect(survivor);
  line.say("ready");
  for (;;) {
    static_cast<void>(line.hear());
    node.step();
    line.say(node.exchanged() ? "exchanged" : "not yet");
  }
}

enum Ending : int { killed_before = 10, killed_after, broken };

/// A process that lives through the death of its peer after so many steps of the peer, and then
/// meets another one.
[[noreturn]] void survive(Ucx::Wire wire, Connects connects, int steps) {
  std::signal(SIGABRT, SIG_DFL);  // Catch's handler would report a failed test of its own
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) _exit(broken);
  pid_t const doomed = fork();
  if (doomed == 0) {
    ::close(ends[0]);
    be_killed(Line{transport::ucx::Fd(ends[1])}, wire, connects);
  }
  ::close(ends[1]);
  Line const line{transport::ucx::Fd(ends[0])};
  bool exchanged = false;
  bool met_another = false;
  {
    Node node(wire, "survivor", 1);
    auto const address = line.hear();
    if (connects != Connects::doomed) node.connect(address);
    line.say(node.transport.address());
    static_cast<void>(line.hear());
    auto const work = [&] {
      for (int i = 0; i < 100; ++i) node.step();
    };
    for (int i = 0; i < steps && !exchanged; ++i) {
      work();
      line.say("step");
      exchanged = line.hear() == "exchanged";
    }
    work();
    kill(doomed, SIGKILL);
    waitpid(doomed, nullptr, 0);

    Node another(wire, "another", 3);
    another.connect(node.transport.address());
    auto const limit = steady_now() + seconds(20);
    while (!another.failed && another.links.empty() && steady_now() < limit) {
      node.step();
      another.step();
    }
    met_another = !another.links.empty();
    work();
  }
  _exit(!met_another ? broken : exchanged ? killed_after : killed_before);
}

/// How the survivor's process ended.
int outcome(Ucx::Wire wire, Connects connects, int steps) {
  pid_t const pid = fork();
  if (pid == 0) {
    try {
      survive(wire, connects, steps);
    } catch (std::exception const&) {
    }
    _exit(broken);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("a peer that is killed at any step of connecting takes nobody with it", "[ucx]") {
  auto const wire = GENERATE(Ucx::Wire::tcp, Ucx::Wire::shared_memory);
  auto const connects = GENERATE(Connects::doomed, Connects::survivor, Connects::both);
  int steps = 0;
  int ended = killed_before;
  for (; steps < steps_max && ended == killed_before; ++steps) {
    ended = outcome(wire, connects, steps);
  }
  INFO("connects " << static_cast<int>(connects) << ", killed after " << steps - 1 << " steps");
  CHECK(ended == killed_after);
}
