#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <b10/hello.hpp>
#include <b10/steady_clock.hpp>
#include <b10/transport.hpp>
#include <b10/transport/ucx/contact.hpp>
#include <b10/transport/ucx/context.hpp>
#include <b10/transport/ucx/lanes.hpp>
#include <b10/transport/ucx/link.hpp>
#include <b10/transport/ucx/options.hpp>

namespace b10::transport {

/// Carries bytes over UCX 1.13 to 1.22: payload by tag and rendezvous, control messages by
/// authenticated eager active messages, one ucp_worker per link, peer error handling always.
/// Peers are met on a TCP socket of our own that proves a shared key both ways, agrees on a
/// generation, and stays open for heartbeats, BYE and as death notice.
///
/// Use it between processes and hosts, on networks you trust: the key keeps strangers out of the
/// protocol, but UCX's own data ports have no authentication and nothing is encrypted.
///
/// One thread calls everything but wake(). A handler may call connect(), and may use and destroy
/// links; it must not call progress() or wait(). Links may outlive the transport object.
class Ucx {
 public:
  static constexpr std::string_view name = "transport::Ucx";
  static constexpr std::size_t control_bytes_max = ucx::control_frame_bytes_max;
  using Options = ucx::Options;
  using Wire = ucx::Wire;
  using Link = ucx::Link;

  /// Binds, listens and sets UCX up; throws Error that names the knob. `local` is completed with
  /// the address really bound and with what both sides' UCX must have in common.
  Ucx(Options options, Hello local) : options_(std::move(options)), local_(std::move(local)) {
    ucx::check(options_);
    context_ = std::make_shared<ucx::Context>(options_);
    local_.transport = context_->compatibility();
    watch(sleep_epoll_, sockets_epoll_->get(), EPOLLIN);
    watch(sleep_epoll_, event_.get(), EPOLLIN);
    local_.listen.clear();
    if (!options_.listen.empty()) listen();
    static_cast<void>(encode_hello(local_));  // throws now what could not be sent later
  }
  Ucx(Ucx const&) = delete;
  Ucx& operator=(Ucx const&) = delete;

  /// Starts to connect; answered by on_link or on_connect_failed with `id`, by `deadline` at the
  /// latest, from progress(). `address`: numeric "host:port".
  void connect(ConnectId id, std::string_view address, Instant deadline) {
    auto c = std::make_unique<ucx::Contact>(ucx::Role::client, std::string(address), deadline);
    c->connect = id;
    if (auto const target = ucx::SocketAddress::parse(address)) {
      int error = 0;
      auto fd = ucx::start_connect(*target, error);
      if (error != 0) {
        c->failure = ucx::errno_text(error);
      } else {
        c->socket = std::make_unique<ucx::BootstrapSocket>(std::move(fd), sockets_epoll_);
        c->socket->frames.put(FrameType::client_greet,
                              ucx::Greet{protocol_version, c->nonce}.encode());
      }
    } else {
      c->failure = "the address is not numeric \"host:port\" or \"[v6]:port\"";
    }
    contacts_.push_back(std::move(c));
    look_now_ = true;
  }

  /// Where this node listens, "127.0.0.1:34567"; empty if it does not.
  [[nodiscard]] std::string address() const { return local_.listen; }

  /// Moves everything that can move without waiting, and calls the handler; how much happened.
  template <class Handler>
  unsigned progress(Handler& handler) {
    unsigned events = 0;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      auto& link = *links_[i];
      if (!link.worker) continue;
      events += link.worker->progress();
      if (link.needs_attention()) events += attend(std::shared_ptr(links_[i]), handler);
    }
    // Idle polling costs a few ns a call: even the clock is only read every so many calls. Calls
    // that did something take long and count more.
    countdown_ -= events == 0 ? 1 : 16;
    if (countdown_ <= 0 || look_now_) events += glance(handler);
    return events;
  }

  /// Returns by `until`, and sooner when there is something to progress, when something is due, or
  /// on wake(). May complete operations, but calls no handler.
  void wait(Instant until) {
    if (!look_now_ && !spin(until) && arm()) sleep(until);
    sleeping_.store(false);
    woken_.store(false);
    look_now_ = true;
  }

  /// Ends the present wait(), or else the next one. From any thread.
  void wake() noexcept {
    woken_.store(true);
    if (!sleeping_.load()) return;
    std::uint64_t const one = 1;
    [[maybe_unused]] auto const n = ::write(event_.get(), &one, sizeof one);
  }

  [[nodiscard]] Instant now() noexcept { return steady_now(); }

  [[nodiscard]] ucx::Counters const& counters() const noexcept { return counters_; }
  /// Completed: what peers are told.
  [[nodiscard]] Hello const& local() const noexcept { return local_; }
  [[nodiscard]] std::string explain() const;

 private:
  using Contact = ucx::Contact;
  using Step = ucx::Contact::Step;
  using LinkState = ucx::LinkState;
  using FrameType = ucx::FrameType;
  static constexpr Duration look_interval = microseconds(50);
  static constexpr int stride_max = 256;
  static constexpr int reads_per_look = 16;  // 64 KiB: one peer cannot hold up the others
  static constexpr int accepts_per_look = 16;

  // ucx/progress.hpp: the sockets, links that are up.
  template <class Handler>
  unsigned glance(Handler& handler);
  template <class Handler>
  unsigned look(Instant now, Handler& handler);
  template <class Handler>
  unsigned attend(std::shared_ptr<LinkState> const& link, Handler& handler);
  template <class Handler>
  unsigned deliver(LinkState& link, Handler& handler);
  template <class Handler>
  unsigned tend(LinkState& link, Instant now, Handler& handler);
  template <class Handler>
  unsigned listen_to(LinkState& link, Instant now, Handler& handler);
  template <class Handler>
  void take_down(LinkState& link, LinkDown how, std::string_view why, Handler& handler);
  void poll_sockets();
  void accept_contacts(Instant now);
  void make_room();
  void sweep(Instant now);

  // ucx/meeting.hpp: contacts that become links.
  template <class Handler>
  unsigned advance(Contact& c, Instant now, Handler& handler);
  template <class Handler>
  void on_frame(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  void on_greet(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  void on_proof(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  void on_identify(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  void on_offer(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  void on_accept(Contact& c, ucx::Frame const& frame, Handler& handler);
  template <class Handler>
  unsigned wire_up(Contact& c, Instant now, Handler& handler);
  template <class Handler>
  void bring_up(Contact& c, Instant now, Handler& handler);
  template <class Handler>
  std::string judge(Contact& c, Handler& handler);
  template <class Handler>
  void refuse(Contact& c, std::string const& why, Handler& handler);
  template <class Handler>
  void fail(Contact& c, std::string const& why, Handler& handler);
  template <class Handler>
  void on_fault(Contact& c, ucx::FrameStream::Fault fault, Handler& handler);
  void make_link(Contact& c);
  void secure(Contact& c);

  void listen() {
    auto const wanted = ucx::SocketAddress::parse(options_.listen);
    if (!wanted) {
      throw Error(Reason::invalid_request, "Options::listen = \"" + options_.listen +
                                               "\" is not numeric \"host:port\" or \"[v6]:port\"");
    }
    listener_ = ucx::listen_on(*wanted);
    local_.listen = ucx::bound_address(listener_).text();
    watch(*sockets_epoll_, listener_.get(), EPOLLIN | EPOLLET);
  }

  [[nodiscard]] bool spin(Instant until) {
    auto const end = std::min(until, steady_now() + options_.spin);
    do {
      for (auto const& link : links_) {
        if (link->worker && (link->worker->progress() != 0 || link->needs_attention())) return true;
      }
      if (woken_.load(std::memory_order_relaxed)) return true;
    } while (steady_now() < end);
    return steady_now() >= until;
  }
  [[nodiscard]] bool arm() {
    return std::all_of(links_.begin(), links_.end(),
                       [](auto const& link) { return !link->worker || link->worker->arm(); });
  }
  void sleep(Instant until) {
    sleeping_.store(true);
    if (woken_.load()) return;  // it came before sleeping_ could be seen
    auto const left = std::min(until, due_) - steady_now();
    if (left <= Duration{}) return;
    timespec const timeout{static_cast<time_t>(left.ns / 1'000'000'000),
                           static_cast<long>(left.ns % 1'000'000'000)};
    pollfd p{sleep_epoll_.get(), POLLIN, 0};
    ::ppoll(&p, 1, &timeout, nullptr);
    std::uint64_t count = 0;
    [[maybe_unused]] auto const n = ::read(event_.get(), &count, sizeof count);
  }

  static void watch(ucx::Fd const& epoll, int fd, std::uint32_t events) {
    epoll_event e{};
    e.events = events;
    e.data.ptr = nullptr;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &e) == 0) return;
    throw Error(Reason::transport_failed, "epoll_ctl failed: " + ucx::errno_text(errno));
  }

  Options options_;
  Hello local_;
  std::shared_ptr<ucx::Context> context_{};
  /// The bootstrap sockets; looked at by glance(). Inside sleep_epoll_, which also has the workers.
  std::shared_ptr<ucx::Fd const> sockets_epoll_ =
      std::make_shared<ucx::Fd const>(epoll_create1(EPOLL_CLOEXEC));
  ucx::Fd sleep_epoll_{epoll_create1(EPOLL_CLOEXEC)};
  ucx::Fd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  ucx::Fd listener_{};
  bool callers_wait_ = false;                         ///< at the listener
  std::vector<std::unique_ptr<Contact>> contacts_{};  ///< oldest first
  std::vector<std::shared_ptr<LinkState>> links_{};
  /// Generations given out here that no handler may have heard of yet.
  std::unordered_map<std::uint64_t, Generation> promised_{};
  std::uint64_t next_link_ = 1;
  ucx::Counters counters_{};

  int stride_ = 1;
  int countdown_ = 1;
  bool look_now_ = true;
  Instant glanced_{};
  Instant looked_{};
  Instant due_{};  ///< when look() has something to do by itself
  std::atomic<bool> woken_{false};
  std::atomic<bool> sleeping_{false};
};

inline std::string Ucx::explain() const {
  std::string out(name);
  out += ": UCX " + context_->version() + ", " + to_string(options_.wire) + " on " +
         context_->device() + ", rendezvous from " + std::to_string(ucx::rendezvous_bytes) +
         " bytes (so that no message is half received for ever), peer error handling\n";
  out += options_.listen.empty() ? "  does not listen" : "  listens on " + local_.listen;
  out += ", heartbeat every " + std::to_string(options_.heartbeat.ns / 1'000'000) + " ms, " +
         std::to_string(options_.heartbeat_misses) + " misses; " +
         std::to_string(contacts_.size()) + " handshakes under way\n";
  for (auto const& l : links_) {
    if (!l->worker || !l->up) continue;
    out += "  link " + std::to_string(to_integer(l->id)) + " to " + l->info.remote.name +
           ", generation " + std::to_string(to_integer(l->info.generation)) + ", lanes";
    for (auto const& lane : l->lanes) out += " " + lane;
    out += ", fragment " + std::to_string(l->worker->fragment_bytes()) + " bytes";
    out += l->down ? ", down\n" : "\n";
  }
  auto const& c = counters_;
  out += "  turned away: " + std::to_string(c.junk) + " junk, " + std::to_string(c.wrong_version) +
         " wrong version, " + std::to_string(c.wrong_key) + " wrong key, " +
         std::to_string(c.oversize) + " oversize, " + std::to_string(c.expired) + " expired, " +
         std::to_string(c.evicted) + " evicted, " + std::to_string(c.refused) + " refused; " +
         std::to_string(c.bad_controls) + " bad control messages, " + std::to_string(c.silent) +
         " silent peers";
  return out;
}

}  // namespace b10::transport

#include <b10/transport/ucx/meeting.hpp>
#include <b10/transport/ucx/progress.hpp>

namespace b10::transport {
static_assert(Transport<Ucx>, "transport::Ucx must model b10::Transport");
}  // namespace b10::transport
