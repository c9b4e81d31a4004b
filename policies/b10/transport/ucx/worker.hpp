#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <b10/operation.hpp>
#include <b10/transport/ucx/context.hpp>
#include <b10/transport/ucx/request.hpp>

namespace b10::transport::ucx {

/// One ucp_worker and its one endpoint: the whole world of one generation of one pair. What was
/// under way when it ends, ends with it. One thread; stays put, since UCX holds its address.
class Worker {
 public:
  /// Throws Error if UCX refuses, or cuts fragments so small that a message below the rendezvous
  /// threshold would take several.
  explicit Worker(std::shared_ptr<Context> context) : context_(std::move(context)) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // the one thread may be handed over
    Context::require(ucp_worker_create(context_->handle(), &params, &worker_), "ucp_worker_create");
    ucp_worker_attr_t attr{};
    attr.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    auto const status = ucp_worker_query(worker_, &attr);
    if (status == UCS_OK) fragment_bytes_ = attr.max_am_header;
    if (fragment_bytes_ < rendezvous_bytes) {
      ucp_worker_destroy(worker_);
      throw Error(Reason::transport_failed,
                  "UCX sends at most " + std::to_string(fragment_bytes_) +
                      " bytes in one fragment here, " + std::to_string(rendezvous_bytes) +
                      " are needed: take UCX_*_SEG_SIZE out of the environment");
    }
  }
  ~Worker() {
    pending_.let_go();
    close();
    pending_.for_each([&](RequestNode& n) {
      if (n.receive) ucp_request_cancel(worker_, &n);
    });
    settle();
    // What is still pending never ends by itself. Freeing marks it; the worker takes it along.
    pending_.for_each([](RequestNode& n) {
      n.unlink();
      ucp_request_free(&n);
    });
    ucp_worker_destroy(worker_);
  }
  Worker(Worker const&) = delete;
  Worker& operator=(Worker const&) = delete;

  /// What the peer needs to connect.
  [[nodiscard]] std::vector<std::byte> address() {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    Context::require(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
    auto const* const first = reinterpret_cast<std::byte const*>(address);
    std::vector<std::byte> out(first, first + size);
    ucp_worker_release_address(worker_, address);
    return out;
  }

  /// Makes the endpoint, with peer error handling or not at all. Throws Error.
  void connect(std::span<std::byte const> peer) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<ucp_address_t const*>(peer.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
      static_cast<Worker*>(self)->failure_ = status;  // closing here has crashed UCX
    };
    params.err_handler.arg = this;
    Context::require(ucp_ep_create(worker_, &params, &endpoint_),
                     "ucp_ep_create with peer error handling");
  }

  void on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
    ucp_am_handler_param_t p{};
    p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                   UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    p.id = id;
    p.flags = UCP_AM_FLAG_WHOLE_MSG;
    p.cb = callback;
    p.arg = argument;
    Context::require(ucp_worker_set_am_recv_handler(worker_, &p), "ucp_worker_set_am_recv_handler");
  }

  void send(Tag tag, std::byte const* data, std::uint64_t bytes, Operation& op) noexcept {
    op.start(tag);
    op.handle = nullptr;
    if (!usable()) return finish(op, UCS_ERR_NOT_CONNECTED, 0, tag);
    auto p = post_params(&op);
    p.cb.send = on_sent;
    posted(ucp_tag_send_nbx(endpoint_, data, bytes, to_integer(tag), &p), op, false);
  }

  void receive(Tag tag, std::byte* data, std::uint64_t bytes, Operation& op) noexcept {
    op.start(tag);
    op.handle = nullptr;
    if (closed_) return finish(op, UCS_ERR_NOT_CONNECTED, 0, tag);
    auto p = post_params(&op);
    p.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // the callback always tells length and tag
    p.cb.recv = on_received;
    posted(ucp_tag_recv_nbx(worker_, data, bytes, to_integer(tag), ~ucp_tag_t{0}, &p), op, true);
  }

  /// UCX can only end a receive that has not matched; everything else it ignores.
  void cancel(Operation& op) noexcept {
    if (op.pending() && op.handle && static_cast<RequestNode*>(op.handle)->receive) {
      ucp_request_cancel(worker_, op.handle);
    }
  }

  /// Takes messages that no receive waits for, at most 64, and forgets them.
  unsigned sink_unexpected() noexcept {
    unsigned found = 0;
    std::byte nothing{};
    for (; found < 64; ++found) {
      ucp_tag_recv_info_t info{};
      auto* const message = ucp_tag_probe_nb(worker_, 0, 0, 1, &info);
      if (!message) break;
      // A receive of no bytes is the only way to let go of one: truncated, nothing is written.
      auto p = post_params(nullptr);
      p.cb.recv = on_sunk;
      ucp_tag_msg_recv_nbx(worker_, &nothing, 0, message, &p);
    }
    return found;
  }

  unsigned progress() noexcept { return ucp_worker_progress(worker_); }
  /// False: events are waiting, progress first.
  [[nodiscard]] bool arm() noexcept { return ucp_worker_arm(worker_) == UCS_OK; }
  [[nodiscard]] int event_fd() const noexcept {
    int fd = -1;
    return ucp_worker_get_efd(worker_, &fd) == UCS_OK ? fd : -1;
  }

  /// The peer asks nothing about the endpoint any more. Until then an end of it must be the end of
  /// progress: UCX would answer over a new endpoint, and 1.13 aborts when that one ends unanswered.
  void wired() noexcept { wired_ = true; }

  /// Force-closes the endpoint; its requests end in later progress, or never. Not a flush: that
  /// hangs with a hung peer, and could not be cut short.
  void close() noexcept {
    if (std::exchange(closed_, true) || !endpoint_) return;
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_EP_CLOSE_FLAG_FORCE;
    auto const request = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &p);
    settle();
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }

  [[nodiscard]] bool usable() const noexcept { return endpoint_ && failure_ == UCS_OK; }
  [[nodiscard]] ucs_status_t failure() const noexcept { return failure_; }
  [[nodiscard]] ucp_ep_h endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] std::size_t fragment_bytes() const noexcept { return fragment_bytes_; }
  [[nodiscard]] Context const& context() const noexcept { return *context_; }

 private:
  void settle() noexcept {
    if (!wired_) return;
    for (int i = 0; i < 16; ++i) ucp_worker_progress(worker_);
  }
  void posted(ucs_status_ptr_t request, Operation& op, bool receive) noexcept {
    if (op.done()) {  // its callback ran inside the post
      if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    } else if (UCS_PTR_IS_PTR(request)) {
      pending_.add(*static_cast<RequestNode*>(request), op, receive);
    } else {
      finish(op, UCS_PTR_STATUS(request), 0, op.tag());
    }
  }

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failure_ = UCS_OK;
  bool closed_ = false;
  bool wired_ = false;
  std::size_t fragment_bytes_ = 0;
  PendingRequests pending_{};
};

}  // namespace b10::transport::ucx
