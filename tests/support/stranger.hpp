#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <b10/core/descriptors.hpp>
#include <b10/core/wire.hpp>
#include <b10/tag/hashed.hpp>
#include <b10/transport/loopback.hpp>

#include "laws/transport.hpp"
#include "support/two_nodes.hpp"

namespace support {

/// A peer without B10, at address "x" of a TwoNodes network: it speaks the protocol message by
/// message, rightly or wrongly, as sender to "b" or as receiver from "a".
class Stranger {
 public:
  using Transport = b10::transport::Loopback;
  using Frame = std::vector<std::byte>;

  explicit Stranger(TwoNodes<>& nodes) : n_(nodes), transport_({nodes.network, "x"}, hello()) {}
  ~Stranger() { node.links.clear(); }

  void settle() {
    for (int i = 0; i < 6; ++i) {
      n_.settle();
      (void)node.progress();
    }
  }
  /// Connects to the receiver "b".
  void meet() {
    transport_.connect(b10::ConnectId{1}, "b", transport_.now() + b10::seconds(1));
    settle();
    REQUIRE(node.links.size() == 1);
  }
  /// Is connected to by the sender "a".
  b10::PeerId met() {
    auto c = n_.a->begin_connect("x", b10::seconds(1));
    settle();
    REQUIRE(c.peer());
    return *c.peer();
  }

  /// CONTROL of an honest transfer of so many bytes from the first block on.
  [[nodiscard]] b10::wire::Control control(std::uint64_t transfer, std::uint64_t request,
                                           std::uint64_t bytes) {
    std::vector<b10::RemoteSpan> const spans{
        {reinterpret_cast<std::uint64_t>(n_.pool.data()), bytes, b10::Device::host}};
    b10::core::DescriptorPacker packer(spans);
    auto const used = packer.pack(segment_);
    b10::wire::Control c;
    c.header = header(transfer);
    c.request = b10::RequestId{request};
    c.remaining = b10::seconds(1);
    c.bytes = bytes;
    c.spans = 1;
    c.slice_bytes = slice_bytes;
    c.chunks = static_cast<std::uint32_t>((bytes + slice_bytes - 1) / slice_bytes);
    c.last_segment = true;
    c.segment = std::span(segment_).first(used);
    return c;
  }
  template <class Message>
  [[nodiscard]] static Frame encoded(Message const& m) {
    Frame frame(b10::wire::frame_bytes_max);
    frame.resize(b10::wire::encode(m, frame).size());
    return frame;
  }
  void send(Frame const& frame) {
    REQUIRE(node.link().control(frame));
    settle();
  }
  /// DATA as the protocol wants it, every byte of the payload being `value`.
  void send_data(std::uint64_t transfer, std::uint32_t chunk, std::uint64_t bytes,
                 std::byte value) {
    Frame message(b10::wire::data_header_bytes + bytes, value);
    b10::wire::encode(b10::wire::DataHeader{generation(), b10::TransferId{transfer},
                                            b10::ChunkIndex{chunk}, bytes, 0},
                      std::span<std::byte, b10::wire::data_header_bytes>(
                          message.data(), b10::wire::data_header_bytes));
    send_tagged(transfer, b10::MessageKind::data, message, b10::ChunkIndex{chunk});
  }
  void send_tagged(std::uint64_t transfer, b10::MessageKind kind, Frame message,
                   b10::ChunkIndex chunk = {}) {
    sent_.push_back({std::move(message), std::make_unique<b10::Operation>()});
    auto& [bytes, operation] = sent_.back();
    node.link().send(tag(transfer, kind, chunk), bytes.data(), bytes.size(), *operation);
    settle();
  }
  /// What came as READY or RESULT of a transfer; nothing if nothing did.
  template <class Decode>
  [[nodiscard]] auto reply(std::uint64_t transfer, b10::MessageKind kind, Decode decode) {
    Frame buffer(b10::wire::reply_bytes_max);
    b10::Operation operation;
    node.link().receive(tag(transfer, kind), buffer.data(), buffer.size(), operation);
    settle();
    if (operation.pending()) {
      node.link().cancel(operation);
      return decltype(decode(buffer)){};
    }
    reply_ = std::move(buffer);
    return decode(std::span<std::byte const>(reply_).first(operation.bytes()));
  }
  [[nodiscard]] std::optional<b10::wire::Ready> ready(std::uint64_t transfer) {
    return reply(transfer, b10::MessageKind::ready, b10::wire::decode_ready);
  }
  /// The last CONTROL that came.
  [[nodiscard]] std::optional<b10::wire::Control> asked() {
    if (node.controls.empty()) return std::nullopt;
    return b10::wire::decode_control(b10::as_byte_view(node.controls.back()));
  }
  [[nodiscard]] b10::wire::Header header(std::uint64_t transfer) const {
    return {b10::MessageKind::control, generation(), b10::TransferId{transfer}, {}};
  }

 private:
  [[nodiscard]] static b10::Hello hello() {
    b10::Hello h;
    h.name = "x";
    h.incarnation = {7, 7};
    h.policies = b10::tag::Hashed::name;
    h.slice_bytes = slice_bytes;
    return h;
  }
  [[nodiscard]] b10::Generation generation() const { return node.infos.back().generation; }
  [[nodiscard]] b10::Tag tag(std::uint64_t transfer, b10::MessageKind kind,
                             b10::ChunkIndex chunk = {}) const {
    return b10::tag::Hashed{}.tag(
        {node.infos.back().domain, generation(), b10::TransferId{transfer}, chunk, kind});
  }

  TwoNodes<>& n_;
  Transport transport_;
  std::array<std::byte, 256> segment_{};
  Frame reply_{};
  std::vector<std::pair<Frame, std::unique_ptr<b10::Operation>>> sent_{};

 public:
  laws::Node<Transport> node{transport_};
};

}  // namespace support
