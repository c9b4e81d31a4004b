#pragma once

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>

#include <b10/outcome.hpp>
#include <b10/transport/ucx/options.hpp>
#include <b10/transport/ucx/request.hpp>
#include <b10/transport/ucx/tcp_socket.hpp>

namespace b10::transport::ucx {

/// One ucp_context, configured so that the rules of a trustworthy transport hold whatever the
/// environment says. Shared by the transport and its links; ends with the last of them.
///
/// Keys of UCX itself are set in code. Before UCX 1.17 keys of its transports (TCP_*, POSIX_*) are
/// not taken there, and no prefix applies to them: they are put into this process's environment as
/// UCX_*, and stay, since every new worker reads them. With such an UCX, make the first transport
/// before other threads read the environment.
class Context {
 public:
  explicit Context(Options const& options) : wire_(options.wire), device_(choose_device(options)) {
    ucp_get_version(&major_, &minor_, &release_);
    keep_signals();
    ucp_config_t* config = nullptr;
    require(ucp_config_read("B10", nullptr, &config), "ucp_config_read");
    std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> const owner(config, ucp_config_release);
    auto const set = [&](char const* key, std::string const& value) {
      require(ucp_config_modify(config, key, value.c_str()),
              "UCX key " + std::string(key) + "=" + value);
    };
    set("TLS", to_string(wire_));
    if (wire_ == Wire::tcp) set("NET_DEVICES", device_);
    set("RNDV_THRESH", std::to_string(rendezvous_bytes));
    set("KEEPALIVE_INTERVAL", "1s");  // a help for dead peers; heartbeats are the mechanism
    set("MAX_EAGER_RAILS", "1");      // a second rail is one more that can fail the endpoint
    set("MAX_RNDV_RAILS", "1");
    configure_transports(config, options);

    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE |
                        UCP_PARAM_FIELD_REQUEST_INIT | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.request_size = sizeof(RequestNode);
    params.request_init = &RequestNode::init;
    params.name = "b10";
    require(ucp_init(&params, config, &context_),
            "ucp_init with " + std::string(to_string(wire_)) + " on " + device_);
  }
  ~Context() { ucp_cleanup(context_); }
  Context(Context const&) = delete;
  Context& operator=(Context const&) = delete;

  [[nodiscard]] ucp_context_h handle() const noexcept { return context_; }
  [[nodiscard]] Wire wire() const noexcept { return wire_; }
  [[nodiscard]] std::string const& device() const noexcept { return device_; }

  /// What both nodes must have in common: UCX 1.13 and 1.22, for instance, do not understand each
  /// other.
  [[nodiscard]] std::string compatibility() const {
    return "ucx " + std::to_string(major_) + "." + std::to_string(minor_) + " " + to_string(wire_) +
           " rndv=" + std::to_string(rendezvous_bytes);
  }
  [[nodiscard]] std::string version() const {
    return std::to_string(major_) + "." + std::to_string(minor_) + "." + std::to_string(release_);
  }

  static void require(ucs_status_t status, std::string const& what) {
    if (status == UCS_OK) return;
    throw Error(Reason::transport_failed, what + " failed: " + ucs_status_string(status));
  }

 private:
  static std::string choose_device(Options const& o) {
    if (o.wire == Wire::shared_memory) return "memory";
    if (!o.net_device.empty()) return o.net_device;
    auto const address = SocketAddress::parse(o.listen);
    auto device = address ? address->device() : std::string();
    if (device.empty()) {
      throw Error(Reason::invalid_request,
                  "Options::listen = \"" + o.listen +
                      "\" is not a numeric address of one interface of this host: correct it, or "
                      "name Options::net_device");
    }
    return device;
  }

  /// A help for dead peers and partitions, where the system's defaults take minutes; what somebody
  /// chose in the environment stays. Heartbeats are the mechanism.
  void configure_transports(ucp_config_t* config, Options const& o) const {
    if (wire_ == Wire::shared_memory) {
      // Without it shared memory is not used at all with peer error handling.
      return transport_key(config, "POSIX_ERROR_HANDLING", "y", true);
    }
    // A connect inside ucp_worker_progress would stop every link until the system gives up.
    transport_key(config, "TCP_CONN_NB", "y", true);
    transport_key(config, "TCP_KEEPIDLE", "1s", false);
    transport_key(config, "TCP_KEEPINTVL", "1s", false);
    transport_key(config, "TCP_KEEPCNT", "3", false);
    if (at_least(22)) transport_key(config, "TCP_USER_TIMEOUT", "5s", false);
    if (!o.port_range.empty()) transport_key(config, "TCP_PORT_RANGE", o.port_range, true);
  }
  void transport_key(ucp_config_t* config, std::string const& key, std::string const& value,
                     bool always) const {
    auto const variable = "UCX_" + key;
    if (!always && std::getenv(variable.c_str())) return;
    if (at_least(17)) {
      require(ucp_config_modify(config, key.c_str(), value.c_str()), variable + "=" + value);
    } else {
      setenv(variable.c_str(), value.c_str(), 1);
    }
  }
  [[nodiscard]] bool at_least(unsigned minor) const noexcept {
    return major_ > 1 || minor_ >= minor;
  }

  /// UCX takes over the crash signals of a process when it is loaded. That is the host's business:
  /// give them back, unless somebody asked for it by name.
  static void keep_signals() {
    if (std::getenv("UCX_HANDLE_ERRORS")) return;
    Dl_info ucs{};
    if (dladdr(reinterpret_cast<void*>(&ucs_status_string), &ucs) == 0) return;
    for (int const signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
      struct sigaction action {};
      Dl_info handler{};
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_DFL &&
          action.sa_handler != SIG_IGN &&
          dladdr(reinterpret_cast<void*>(action.sa_sigaction), &handler) != 0 &&
          handler.dli_fbase == ucs.dli_fbase) {
        ucs_debug_disable_signal(signal);
      }
    }
  }

  Wire wire_;
  std::string device_;
  unsigned major_ = 0;
  unsigned minor_ = 0;
  unsigned release_ = 0;
  ucp_context_h context_ = nullptr;
};

}  // namespace b10::transport::ucx
