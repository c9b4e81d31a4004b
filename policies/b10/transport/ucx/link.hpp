#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/operation.hpp>
#include <b10/time.hpp>
#include <b10/transport.hpp>
#include <b10/transport/ucx/bootstrap_socket.hpp>
#include <b10/transport/ucx/control.hpp>
#include <b10/transport/ucx/worker.hpp>

namespace b10::transport::ucx {

/// One generation: its worker, its control messages and, once up, its bootstrap socket.
/// The transport keeps it in its list; the Link that was handed out ends it.
struct LinkState {
  LinkState(std::shared_ptr<Context> context, LinkId name, Digest const& send,
            Digest const& receive)
      : id(name),
        sender(send),
        inbox(receive),
        worker(std::make_unique<Worker>(std::move(context))) {
    worker->on_message(control_message_id, &ControlInbox::on_message, &inbox);
  }

  LinkId id;
  LinkInfo info{};
  std::vector<std::string> lanes{};
  ControlSender sender;
  ControlInbox inbox;
  Operation knock{};
  bool knocked = false;            ///< the peer has
  std::unique_ptr<Worker> worker;  ///< null: destroyed, nothing of this link can touch memory
  std::unique_ptr<BootstrapSocket> socket{};
  bool up = false;    ///< handed out
  bool down = false;  ///< its end was reported, or nobody wants to know
  bool bye_sent = false;
  Instant heard{};      ///< when the peer last said anything
  Instant next_beat{};  ///< when this side speaks next
  Duration patience{};  ///< silent after that long

  /// Makes the endpoint and sends a message of no bytes over it. See Ucx::wire_up().
  void connect(std::span<std::byte const> peer) {
    worker->connect(peer);
    worker->send(Tag{}, nullptr, 0, knock);
  }
  /// Something is there that progress() must look at.
  [[nodiscard]] bool needs_attention() const noexcept {
    return !down && (!inbox.empty() || worker->failure() != UCS_OK || inbox.fault());
  }
  void retire() noexcept {
    down = true;
    if (worker) worker->close();
    if (socket) socket->close();
  }
  void destroy() noexcept {
    if (worker && !up) worker->sink_unexpected();  // a knock that UCX would complain about
    retire();
    worker.reset();
  }
};

/// The handle of one live link; see b10::Transport for its laws. Move-only, belongs to the thread
/// that calls progress(). May be destroyed inside a handler call, and may outlive the transport.
class Link {
 public:
  explicit Link(std::shared_ptr<LinkState> state) noexcept : state_(std::move(state)) {}
  Link(Link&&) noexcept = default;
  Link& operator=(Link&& other) noexcept {
    if (this != &other) {
      end();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~Link() { end(); }

  [[nodiscard]] LinkId id() const noexcept { return state_->id; }

  /// Authenticated, numbered, copied. False: not posted (frame too long, link down, peer takes
  /// nothing).
  bool control(std::span<std::byte const> frame) noexcept {
    return !state_->down && state_->sender.send(*state_->worker, frame);
  }
  void send(Tag tag, std::byte const* data, std::uint64_t bytes, Operation& op) noexcept {
    state_->worker->send(tag, data, bytes, op);
  }
  void receive(Tag tag, std::byte* data, std::uint64_t bytes, Operation& op) noexcept {
    state_->worker->receive(tag, data, bytes, op);
  }
  void cancel(Operation& op) noexcept { state_->worker->cancel(op); }

  /// Tells the peer that this side ends in order. Both sides then get on_link_down(bye); send
  /// nothing after it. If the peer does not answer, missed heartbeats end the link.
  void bye() noexcept {
    auto& s = *state_;
    if (s.down || !s.socket || std::exchange(s.bye_sent, true)) return;
    try {
      s.socket->frames.put(FrameType::bye);
      s.socket->write();
    } catch (...) {  // no memory: the peer will see the socket close
    }
  }
  /// After it no handler call names this link.
  void retire() noexcept { state_->retire(); }

  /// Throws away messages that no receive waits for; how many (at most 64 a call). Call it when
  /// every message that may rightly be under way has its receive posted: any other one would go
  /// too.
  unsigned sink_unexpected() noexcept { return state_->worker->sink_unexpected(); }

 private:
  void end() noexcept {
    if (state_) state_->destroy();
    state_.reset();
  }
  std::shared_ptr<LinkState> state_;
};

}  // namespace b10::transport::ucx
