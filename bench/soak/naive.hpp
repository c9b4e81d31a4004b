// The naive policy set under the same faults: one worker for everybody, tags that name sender and
// chunk only, large messages eager, buffers used again at once. What B10 exists to replace.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "plane.hpp"

namespace b10::bench::naive {

inline void require(ucs_status_t status, char const* what) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

/// One posted send or receive. Lives on the heap and is never freed: it may never end.
struct Request {
  bool done = false;
  ucs_status_t status = UCS_INPROGRESS;
  void* handle = nullptr;
};

class Worker {
 public:
  explicit Worker(std::string const& tls) {
    if (tls == "posix") setenv("UCX_POSIX_ERROR_HANDLING", "y", 1);
    ucp_config_t* config = nullptr;
    require(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    require(ucp_config_modify(config, "TLS", tls.c_str()), "TLS");
    if (tls == "tcp") require(ucp_config_modify(config, "NET_DEVICES", "lo"), "NET_DEVICES");
    require(ucp_config_modify(config, "RNDV_THRESH", "inf"), "RNDV_THRESH");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context = nullptr;
    require(ucp_init(&params, config, &context), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    require(ucp_worker_create(context, &worker, &worker_), "ucp_worker_create");
  }  // ends with the process, as this program does

  /// Copies the address into `to`; its size.
  [[nodiscard]] std::size_t address(std::span<std::byte> to) const {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    require(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
    if (size > to.size()) throw std::runtime_error("a UCX address does not fit");
    std::memcpy(to.data(), address, size);
    ucp_worker_release_address(worker_, address);
    return size;
  }
  /// `failed` is set when UCX reports the peer dead.
  [[nodiscard]] ucp_ep_h connect(std::byte const* address, bool& failed) {
    ucp_ep_params_t p{};
    p.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                   UCP_EP_PARAM_FIELD_ERR_HANDLER;
    p.address = reinterpret_cast<ucp_address_t const*>(address);
    p.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    p.err_handler.cb = [](void* flag, ucp_ep_h, ucs_status_t) { *static_cast<bool*>(flag) = true; };
    p.err_handler.arg = &failed;
    ucp_ep_h endpoint = nullptr;
    require(ucp_ep_create(worker_, &p, &endpoint), "ucp_ep_create");
    return endpoint;
  }
  void close(ucp_ep_h endpoint) {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_EP_CLOSE_FLAG_FORCE;
    auto const request = ucp_ep_close_nbx(endpoint, &p);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  [[nodiscard]] Request* send(ucp_ep_h endpoint, std::byte const* data, std::uint64_t tag) {
    auto* const r = new Request;
    auto p = params(r);
    p.cb.send = [](void*, ucs_status_t status, void* self) { end(self, status); };
    return posted(ucp_tag_send_nbx(endpoint, data, chunk_bytes, tag, &p), r);
  }
  [[nodiscard]] Request* receive(std::byte* data, std::uint64_t tag) {
    auto* const r = new Request;
    auto p = params(r);
    p.cb.recv = [](void*, ucs_status_t status, ucp_tag_recv_info_t const*, void* self) {
      end(self, status);
    };
    return posted(ucp_tag_recv_nbx(worker_, data, chunk_bytes, tag, ~ucp_tag_t{0}, &p), r);
  }
  void cancel(Request* r) {
    if (!r->done && r->handle) ucp_request_cancel(worker_, r->handle);
  }
  unsigned progress() { return ucp_worker_progress(worker_); }

 private:
  static ucp_request_param_t params(Request* r) {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    p.user_data = r;
    return p;
  }
  static void end(void* self, ucs_status_t status) {
    auto& r = *static_cast<Request*>(self);
    r.done = true;
    r.status = status;
  }
  static Request* posted(ucs_status_ptr_t request, Request* r) {
    if (UCS_PTR_IS_PTR(request))
      r->handle = request;
    else
      end(r, UCS_PTR_STATUS(request));
    return r;
  }

  ucp_worker_h worker_ = nullptr;
};

[[nodiscard]] inline std::uint64_t tag_of(std::size_t sender, std::size_t chunk) {
  return sender << 8 | chunk;
}

/// What the receiver knows of one sender.
struct Client {
  std::uint64_t request = 0;
  std::vector<std::byte> buffer = std::vector<std::byte>(transfer_bytes);
  std::array<Request*, chunks> receives{};
  ucp_ep_h endpoint = nullptr;
  bool failed = false;
};

inline void receiver(Plane& plane, std::string const& tls, Duration run_time) {
  Worker worker(tls);
  Counts& counts = plane.counts;
  plane.worker_bytes = worker.address(plane.worker);
  std::array<Client, senders> clients;
  std::uint64_t next = 1;
  auto const offer = [&](std::size_t i) {
    auto& c = clients[i];
    c.request = next++;
    std::memset(c.buffer.data(), 0xcc, c.buffer.size());
    for (std::size_t k = 0; k < chunks; ++k)
      c.receives[k] = worker.receive(c.buffer.data() + k * chunk_bytes, tag_of(i, k));
    plane.slots[i].offer(c.request, c.buffer.data());
  };
  auto const fail = [&](std::size_t i) {
    ++counts.failed;
    note_overrun(plane.slots[i], counts);
    for (auto* r : clients[i].receives) worker.cancel(r);  // and that is thought to be enough
    offer(i);
  };
  for (std::size_t i = 0; i < senders; ++i) offer(i);
  plane.ready = true;
  auto const quarter = steady_now() + Duration{run_time.ns / 4};
  while (!plane.stop) {
    worker.progress();
    if (counts.memory_early == 0 && steady_now() > quarter) counts.memory_early = resident_bytes();
    for (std::size_t i = 0; i < senders; ++i) {
      auto& c = clients[i];
      Slot& slot = plane.slots[i];
      if (slot.accepted != slot.incarnation) {
        if (c.endpoint) worker.close(c.endpoint);
        c.failed = false;
        c.endpoint = worker.connect(slot.worker.data(), c.failed);
        ++counts.generations;
        slot.accepted = slot.incarnation.load();
      }
      auto const started = static_cast<std::int64_t>(slot.started_at.load());
      bool const late = started != 0 && steady_now() > Instant{started} + deadline;
      bool const bad = std::any_of(c.receives.begin(), c.receives.end(),
                                   [](auto* r) { return r->done && r->status != UCS_OK; });
      if (late || bad || (c.failed && started != 0)) {
        c.failed = false;
        fail(i);
      } else if (std::all_of(c.receives.begin(), c.receives.end(),
                             [](auto* r) { return r->done; })) {
        bool const right = contents_of(c.request).matches(c.buffer.data(), 0, transfer_bytes);
        ++(right ? counts.landed : counts.corrupt);
        offer(i);
      }
    }
  }
  counts.memory_end = resident_bytes();
}

/// One sender process. One that fails goes away, and another takes its place.
inline void sender(Plane& plane, std::string const& tls, std::size_t index,
                   std::uint64_t incarnation) {
  Worker worker(tls);
  Slot& slot = plane.slots[index];
  slot.worker_bytes = worker.address(slot.worker);
  bool failed = false;
  auto* const endpoint = worker.connect(plane.worker.data(), failed);
  slot.incarnation = incarnation;
  auto const give_up = [&](Duration limit, auto done) {
    auto const until = steady_now() + limit;
    while (!done()) {
      if (worker.progress() == 0) usleep(50);
      if (failed || steady_now() > until) _exit(2);
    }
  };
  give_up(seconds(5), [&] { return slot.accepted == incarnation; });
  std::vector<std::byte> source(transfer_bytes);
  for (std::uint64_t last = 0;;) {
    give_up(seconds(5), [&] { return slot.request != last; });
    last = slot.request;
    contents_of(last).fill(source.data(), 0, source.size());
    slot.started_at = static_cast<std::uint64_t>(steady_now().ns);
    std::array<Request*, chunks> sends{};
    for (std::size_t k = 0; k < chunks; ++k)
      sends[k] = worker.send(endpoint, source.data() + k * chunk_bytes, tag_of(index, k));
    give_up(seconds(1), [&] {
      return std::all_of(sends.begin(), sends.end(), [](auto* r) { return r->done; });
    });
    ++plane.counts.claimed;
  }
}

}  // namespace b10::bench::naive
