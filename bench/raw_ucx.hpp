// The baseline: a bare loop over UCX's tag API, as somebody would write it who wants nothing but
// speed. Same keys, same error handling, same message size as transport::Ucx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include <b10/steady_clock.hpp>

namespace b10::bench {

/// One context, worker and endpoint. One thread. Throws std::runtime_error on any UCX error and
/// when nothing moves for ten seconds.
class RawUcx {
 public:
  /// `tls`: "tcp" or "posix"; `device`: the interface, for tcp. Everything else is read from the
  /// environment as transport::Ucx reads it, so what is set there counts for both.
  RawUcx(std::string const& tls, std::string const& device) {
    ucp_config_t* config = nullptr;
    require(ucp_config_read("B10", nullptr, &config), "ucp_config_read");
    auto const set = [&](char const* key, std::string const& value) {
      require(ucp_config_modify(config, key, value.c_str()), key);
    };
    set("TLS", tls);
    if (tls == "tcp") set("NET_DEVICES", device);
    set("RNDV_THRESH", "8000");
    set("KEEPALIVE_INTERVAL", "1s");
    set("MAX_EAGER_RAILS", "1");
    set("MAX_RNDV_RAILS", "1");
    if (tls == "posix") {
      // Before 1.17 keys of a transport are taken from the environment only.
      if (UCP_API_VERSION >= UCP_VERSION(1, 17))
        set("POSIX_ERROR_HANDLING", "y");
      else
        setenv("UCX_POSIX_ERROR_HANDLING", "y", 1);
    }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    auto const status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    require(status, "ucp_init");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    require(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
  }
  RawUcx(RawUcx const&) = delete;
  RawUcx& operator=(RawUcx const&) = delete;
  ~RawUcx() {
    if (endpoint_) {
      ucp_request_param_t p{};
      p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      p.flags = UCP_EP_CLOSE_FLAG_FORCE;
      auto const request = ucp_ep_close_nbx(endpoint_, &p);
      for (int i = 0; i < 100; ++i) ucp_worker_progress(worker_);
      if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    }
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  [[nodiscard]] std::vector<std::byte> address() const {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    require(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
    auto const* const first = reinterpret_cast<std::byte const*>(address);
    std::vector<std::byte> out(first, first + size);
    ucp_worker_release_address(worker_, address);
    return out;
  }
  void connect(std::span<std::byte const> peer) {
    ucp_ep_params_t p{};
    p.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                   UCP_EP_PARAM_FIELD_ERR_HANDLER;
    p.address = reinterpret_cast<ucp_address_t const*>(peer.data());
    p.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    p.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
      static_cast<RawUcx*>(self)->failure_ = status;
    };
    p.err_handler.arg = this;
    require(ucp_ep_create(worker_, &p, &endpoint_), "ucp_ep_create");
  }

  /// Sends `count` messages of `bytes` (the last of `last_bytes`) with `window` in flight;
  /// `source(i, slot)` says where message i lies. Ends when all are sent.
  template <class Source>
  void send(std::uint64_t first_tag, std::size_t count, std::size_t window, Source source) {
    std::vector<Request> slots(window);
    std::size_t next = 0;
    std::size_t ended = 0;
    wait([&] {
      for (std::size_t k = 0; k < window; ++k) {
        if (slots[k].busy && slots[k].done) {
          slots[k].busy = false;
          ++ended;
        }
        if (slots[k].busy || next == count) continue;
        auto const message = source(next, k);
        post_send(first_tag + next++, message, slots[k]);
      }
      return ended == count;
    });
  }
  /// The other side. `target(i, slot)` says where message i goes, `posted()` is called once the
  /// first window is posted, `landed(i, slot)` when message i is there.
  template <class Target, class Posted, class Landed>
  void receive(std::uint64_t first_tag, std::size_t count, std::size_t window, Target target,
               Posted posted, Landed landed) {
    std::vector<Request> slots(window);
    std::size_t next = 0;
    std::size_t ended = 0;
    auto const post = [&](std::size_t k) {
      auto const buffer = target(next, k);
      slots[k].index = next;
      post_receive(first_tag + next++, buffer, slots[k]);
    };
    for (std::size_t k = 0; k < window && next < count; ++k) post(k);
    posted();
    wait([&] {
      for (std::size_t k = 0; k < window; ++k) {
        if (!slots[k].busy || !slots[k].done) continue;
        slots[k].busy = false;
        landed(slots[k].index, k);
        ++ended;
        if (next < count) post(k);
      }
      return ended == count;
    });
  }
  void send_one(std::uint64_t tag, std::span<std::byte const> message) {
    send(tag, 1, 1, [&](std::size_t, std::size_t) { return message; });
  }
  void receive_one(std::uint64_t tag, std::span<std::byte> buffer) {
    receive(
        tag, 1, 1, [&](std::size_t, std::size_t) { return buffer; }, [] {},
        [](std::size_t, std::size_t) {});
  }

 private:
  struct Request {
    bool busy = false;
    bool done = false;
    ucs_status_t status = UCS_OK;
    std::size_t index = 0;
  };

  static void require(ucs_status_t status, std::string const& what) {
    if (status != UCS_OK)
      throw std::runtime_error("raw UCX: " + what + ": " + ucs_status_string(status));
  }
  static ucp_request_param_t post_params(Request& r) {
    r.busy = true;
    r.done = false;
    ucp_request_param_t p{};
    p.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    p.user_data = &r;
    p.memory_type = UCS_MEMORY_TYPE_HOST;
    return p;
  }
  static void end(Request& r, ucs_status_t status) {
    r.status = status;
    r.done = true;
  }
  static void posted(ucs_status_ptr_t request, Request& r) {
    if (!UCS_PTR_IS_PTR(request)) end(r, UCS_PTR_STATUS(request));
  }
  void post_send(std::uint64_t tag, std::span<std::byte const> message, Request& r) {
    auto p = post_params(r);
    p.cb.send = [](void* request, ucs_status_t status, void* self) {
      end(*static_cast<Request*>(self), status);
      ucp_request_free(request);
    };
    posted(ucp_tag_send_nbx(endpoint_, message.data(), message.size(), tag, &p), r);
  }
  void post_receive(std::uint64_t tag, std::span<std::byte> buffer, Request& r) {
    auto p = post_params(r);
    p.cb.recv = [](void* request, ucs_status_t status, ucp_tag_recv_info_t const*, void* self) {
      end(*static_cast<Request*>(self), status);
      ucp_request_free(request);
    };
    posted(ucp_tag_recv_nbx(worker_, buffer.data(), buffer.size(), tag, ~ucp_tag_t{0}, &p), r);
  }
  /// Looks at the clock only when nothing has moved for a while.
  template <class Step>
  void wait(Step step) {
    auto until = Instant{};
    for (unsigned idle = 0; !step();) {
      require(failure_, "the endpoint failed");
      if (ucp_worker_progress(worker_) != 0) {
        idle = 0;
      } else if (++idle % 65'536 == 0) {
        if (idle == 65'536) until = steady_now() + seconds(10);
        if (steady_now() > until) throw std::runtime_error("raw UCX: nothing has moved for 10 s");
      }
    }
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failure_ = UCS_OK;
};

}  // namespace b10::bench
