#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <b10/bytes.hpp>
#include <b10/transport/ucx/keyed_mac.hpp>

namespace b10::transport::ucx {

/// Frames of the bootstrap socket, in the order of a handshake; then those of a live link.
enum class FrameType : std::uint8_t {
  client_greet = 1,  ///< magic, version, nonce
  server_greet,      ///< the same; another type, so that a reflected greeting is not one
  client_proof,      ///< proof of the key over both nonces
  identify,          ///< server's proof, heartbeat interval, hello
  offer,             ///< client's heartbeat interval, generation floor, hello, worker address
  accept,            ///< agreed generation, server's worker address
  refuse,            ///< a sentence
  confirm,           ///< the client has made its endpoint
  heartbeat,
  bye,
  bye_ack,
};

struct Frame {
  FrameType type{};
  std::vector<std::byte> body{};
};

/// Grows with what is appended; read back by b10::ByteReader.
struct BodyWriter {
  std::vector<std::byte> bytes{};
  template <class U>
  void integer(U v) {
    for (std::size_t i = 0; i < sizeof v; ++i) {
      bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(v) >> (8 * i) & 0xff));
    }
  }
  void append(std::span<std::byte const> b) { bytes.insert(bytes.end(), b.begin(), b.end()); }
};

/// Cuts a byte stream into frames and back: u32 length, u8 type, body, and once a session key
/// exists a code over (position in the stream, type, body), so that nothing can be changed,
/// repeated, left out or turned round. Holds at most one frame of the length now allowed. No I/O.
class FrameStream {
 public:
  static constexpr std::uint32_t frame_bytes_max = 64 * 1024;  ///< type, body and code
  static constexpr std::uint32_t small_bytes_max = 64;         ///< all that a stranger may send
  static constexpr std::size_t code_bytes = 16;
  static constexpr std::size_t body_bytes_max = frame_bytes_max - 1 - code_bytes;
  static constexpr std::size_t out_bytes_max = 4 * frame_bytes_max;

  enum class Fault : std::uint8_t { none, junk, oversize, not_authentic };

  /// From here on every frame carries a code. Each direction has its own key.
  void secure(Digest const& send, Digest const& receive) {
    send_key_ = send;
    receive_key_ = receive;
  }
  /// Longest frame accepted from now on.
  void allow(std::uint32_t bytes) noexcept { limit_ = bytes; }

  /// Queues a frame. False if the peer does not take them (nothing is queued then).
  bool put(FrameType type, std::span<std::byte const> body = {}) {
    if (body.size() > body_bytes_max || out_.size() - out_from_ > out_bytes_max) return false;
    auto const code = send_key_ ? code_bytes : 0;
    BodyWriter head;
    head.integer(static_cast<std::uint32_t>(1 + body.size() + code));
    head.integer(static_cast<std::uint8_t>(type));
    append(head.bytes);
    append(body);
    if (send_key_) append(code_of(*send_key_, sent_++, type, body));
    return true;
  }

  /// Next whole frame, if one is there. After a fault there is never another one.
  [[nodiscard]] std::optional<Frame> next() {
    if (fault_ != Fault::none || in_.size() < 4) return std::nullopt;
    ByteReader reader(in_);
    auto const length = reader.take<std::uint32_t>();
    auto const code = receive_key_ ? code_bytes : 0;
    if (length > limit_) return broken(Fault::oversize);
    if (length < 1 + code) return broken(Fault::junk);
    if (in_.size() < 4 + length) return std::nullopt;
    Frame frame;
    frame.type = FrameType{reader.take<std::uint8_t>()};
    auto const body = reader.take_bytes(length - 1 - code);
    if (receive_key_ &&
        !equal_in_constant_time(reader.take_bytes(code),
                                code_of(*receive_key_, received_++, frame.type, body))) {
      return broken(Fault::not_authentic);
    }
    frame.body.assign(body.begin(), body.end());
    in_.erase(in_.begin(), in_.begin() + 4 + static_cast<std::ptrdiff_t>(length));
    return frame;
  }

  /// How many more bytes may be taken from the socket before next() must be asked.
  [[nodiscard]] std::size_t room() const noexcept {
    return fault_ != Fault::none
               ? 0
               : 4 + std::size_t{limit_} - std::min(in_.size(), 4 + std::size_t{limit_});
  }
  void received(std::span<std::byte const> bytes) {
    in_.insert(in_.end(), bytes.begin(), bytes.end());
  }
  [[nodiscard]] std::span<std::byte const> to_send() const noexcept {
    return std::span(out_).subspan(out_from_);
  }
  void sent(std::size_t bytes) noexcept {
    out_from_ += bytes;
    if (out_from_ != out_.size()) return;
    out_.clear();
    out_from_ = 0;
  }
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  static std::array<std::byte, code_bytes> code_of(Digest const& key, std::uint64_t position,
                                                   FrameType type,
                                                   std::span<std::byte const> body) {
    BodyWriter head;
    head.integer(position);
    head.integer(static_cast<std::uint8_t>(type));
    auto const digest = hmac(key, {head.bytes, body});
    std::array<std::byte, code_bytes> code;
    std::copy_n(digest.begin(), code_bytes, code.begin());
    return code;
  }
  void append(std::span<std::byte const> b) { out_.insert(out_.end(), b.begin(), b.end()); }
  std::nullopt_t broken(Fault fault) {
    fault_ = fault;
    in_.clear();
    return std::nullopt;
  }

  std::vector<std::byte> in_{};
  std::vector<std::byte> out_{};
  std::size_t out_from_ = 0;
  std::uint32_t limit_ = small_bytes_max;
  std::optional<Digest> send_key_{};
  std::optional<Digest> receive_key_{};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  Fault fault_ = Fault::none;
};

}  // namespace b10::transport::ucx
