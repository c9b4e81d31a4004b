#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <b10/transport/ucx/keyed_mac.hpp>
#include <b10/transport/ucx/request.hpp>
#include <b10/transport/ucx/worker.hpp>

namespace b10::transport::ucx {

inline constexpr unsigned control_message_id = 10;
inline constexpr std::size_t control_frame_bytes_max = 4000;

/// Travels as the header of every control message.
struct ControlHeader {
  std::uint64_t sequence = 0;  ///< 0: wire-up, empty; then 1, 2, ...
  std::uint64_t code = 0;      ///< ShortMac of sequence and frame
};

/// Sends control frames, each in its own buffer that UCX reads until the send ends. One thread.
/// Must outlive the worker it sends through.
class ControlSender {
 public:
  static constexpr std::size_t frames_in_flight_max = 256;  ///< 1 MiB of frames not yet on the wire

  explicit ControlSender(Digest const& key) : mac_(key) {}

  /// False: not posted, because the endpoint failed or the peer takes nothing any more.
  bool send(Worker& worker, std::span<std::byte const> frame) noexcept {
    if (frame.size() > control_frame_bytes_max || !worker.usable()) return false;
    auto* const slot = free_slot();
    if (!slot || !mac_(next_, frame, slot->header.code)) {
      if (slot) slot->busy = false;
      return false;
    }
    slot->header.sequence = next_;
    if (!frame.empty()) std::memcpy(slot->frame.data(), frame.data(), frame.size());
    auto p = post_params(slot);
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_AM_SEND_FLAG_EAGER;
    // Makes UCX exchange the numbers of both endpoints now, while nothing else is under way.
    if (next_ == 0) p.flags |= UCP_AM_SEND_FLAG_REPLY;
    p.cb.send = [](void* request, ucs_status_t, void* at) {
      static_cast<Slot*>(at)->busy = false;
      ucp_request_free(request);
    };
    auto const request = ucp_am_send_nbx(worker.endpoint(), control_message_id, &slot->header,
                                         sizeof slot->header, slot->frame.data(), frame.size(), &p);
    if (!UCS_PTR_IS_PTR(request)) slot->busy = false;
    if (UCS_PTR_IS_ERR(request)) return false;
    ++next_;
    return true;
  }

 private:
  struct Slot {
    ControlHeader header{};
    bool busy = false;
    std::array<std::byte, control_frame_bytes_max> frame;
  };
  Slot* free_slot() noexcept {
    // Nearly always the first one: a frame is copied to the socket before the post returns.
    for (auto& s : slots_) {
      if (!s->busy) {
        s->busy = true;
        return s.get();
      }
    }
    if (slots_.size() >= frames_in_flight_max) return nullptr;
    std::unique_ptr<Slot> fresh(new (std::nothrow) Slot);
    if (!fresh) return nullptr;
    fresh->busy = true;
    slots_.push_back(std::move(fresh));  // the room was reserved
    return slots_.back().get();
  }

  ShortMac mac_;
  std::uint64_t next_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_ = [] {
    std::vector<std::unique_ptr<Slot>> v;
    v.reserve(frames_in_flight_max);
    return v;
  }();
};

/// Checks and keeps control frames between UCX's callback and the next delivery. Bounded: what one
/// call of ucp_worker_progress can bring fits several times over.
class ControlInbox {
 public:
  static constexpr std::size_t bytes_max = 512 * 1024;

  explicit ControlInbox(Digest const& key)
      : mac_(key), bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes_max)) {}

  /// The callback of UCX; `self` is the inbox.
  static ucs_status_t on_message(void* self, void const* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, ucp_am_recv_param_t const* param) {
    static_cast<ControlInbox*>(self)->take(header, header_bytes, data, bytes, param->recv_attr);
    return UCS_OK;
  }

  /// Next frame in order; valid until the next call of UCX's progress.
  [[nodiscard]] std::optional<std::span<std::byte const>> next() noexcept {
    if (read_ == write_) {
      read_ = write_ = 0;
      return std::nullopt;
    }
    std::uint32_t size = 0;
    std::memcpy(&size, bytes_.get() + read_, sizeof size);
    std::span<std::byte const> const frame(bytes_.get() + read_ + sizeof size, size);
    read_ += sizeof size + size;
    return frame;
  }
  [[nodiscard]] bool empty() const noexcept { return read_ == write_; }
  [[nodiscard]] bool half_full() const noexcept { return write_ > bytes_max / 2; }
  /// The peer's wire-up message has come.
  [[nodiscard]] bool wired() const noexcept { return expected_ > 0; }
  /// Why nothing is taken any more; null while all is well.
  [[nodiscard]] char const* fault() const noexcept { return fault_; }

 private:
  void take(void const* header, std::size_t header_bytes, void const* data, std::size_t bytes,
            std::uint64_t attributes) noexcept {
    if (fault_) return;
    ControlHeader h;
    if (header_bytes != sizeof h || bytes > control_frame_bytes_max ||
        (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
      fault_ = "control message of a wrong form";
      return;
    }
    std::memcpy(&h, header, sizeof h);
    std::span<std::byte const> const frame(static_cast<std::byte const*>(data), bytes);
    std::uint64_t code = 0;
    if (h.sequence != expected_ || !mac_(h.sequence, frame, code) ||
        !equal_in_constant_time(std::as_bytes(std::span(&code, 1)),
                                std::as_bytes(std::span(&h.code, 1)))) {
      fault_ = "control message not authentic";
      return;
    }
    if (expected_++ == 0) return;  // wire-up carries nothing
    auto const size = static_cast<std::uint32_t>(bytes);
    if (bytes_max - write_ < sizeof size + size) {
      fault_ = "more control messages than the inbox holds";
      return;
    }
    std::memcpy(bytes_.get() + write_, &size, sizeof size);
    if (size != 0) std::memcpy(bytes_.get() + write_ + sizeof size, data, size);
    write_ += sizeof size + size;
  }

  ShortMac mac_;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t read_ = 0;
  std::size_t write_ = 0;
  std::uint64_t expected_ = 0;
  char const* fault_ = nullptr;
};

}  // namespace b10::transport::ucx
