// Every decoder that reads bytes of a peer. The first byte chooses one, the rest is its input.
// clang++ -fsanitize=fuzzer,address,undefined; also a plain function of bytes for a test to call.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <b10/core/descriptors.hpp>
#include <b10/core/wire.hpp>
#include <b10/hello.hpp>

namespace {

using Bytes = std::span<std::byte const>;

void require(bool promise) {
  if (!promise) std::abort();
}

void fuzz_hello(Bytes in) {
  auto const hello = b10::decode_hello(in);
  if (!hello || hello->protocol != b10::protocol_version) return;
  require(b10::decode_hello(b10::encode_hello(*hello)) == hello);
  require(!b10::incompatibility(*hello, *hello).empty());
}

template <class Message>
void fuzz_frame(Message const& m) {
  if (!m) return;
  std::byte out[b10::wire::frame_bytes_max];
  require(!b10::wire::encode(*m, out).empty());
}

void fuzz_wire(Bytes in) {
  static_cast<void>(b10::wire::decode_header(in));
  static_cast<void>(b10::wire::decode_data_header(in));
  fuzz_frame(b10::wire::decode_control(in));
  fuzz_frame(b10::wire::decode_descriptors(in));
  fuzz_frame(b10::wire::decode_abort(in));
  fuzz_frame(b10::wire::decode_ready(in));
  fuzz_frame(b10::wire::decode_result(in));
}

/// Two bytes of spans announced, then segments, each with a byte of length before it.
void fuzz_descriptors(Bytes in) {
  if (in.size() < 3) return;
  auto const expected =
      std::to_integer<std::uint64_t>(in[0]) << 8 | std::to_integer<std::uint64_t>(in[1]);
  auto const sum = std::uint64_t{1} << (std::to_integer<unsigned>(in[2]) & 63);
  in = in.subspan(3);
  b10::core::DescriptorUnpacker unpacker(expected, sum);
  while (!in.empty()) {
    auto const length = std::to_integer<std::size_t>(in[0]);
    in = in.subspan(1);
    auto const segment = in.first(length < in.size() ? length : in.size());
    in = in.subspan(segment.size());
    static_cast<void>(unpacker.feed(segment));
  }
  std::uint64_t total = 0;
  require(unpacker.spans().capacity() <= expected);
  for (auto const& s : unpacker.spans()) {
    require(s.bytes != 0 && s.address != 0 && s.address <= ~s.bytes);
    require(s.device >= b10::Device::host);
    total += s.bytes;
    require(total >= s.bytes && total <= sum);
  }
  if (unpacker.complete()) require(unpacker.spans().size() == expected && total == sum);

  // What came out packs and comes out the same.
  b10::core::DescriptorUnpacker again(unpacker.spans().size(), total);
  std::byte segment[100];
  for (b10::core::DescriptorPacker packer(unpacker.spans()); !packer.done();) {
    auto const used = packer.pack(segment);
    require(used > 0 && again.feed(std::span{segment}.first(used)).empty());
  }
  require(again.complete() && again.spans() == unpacker.spans());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  auto const in = std::as_bytes(std::span{data, size}).subspan(1);
  switch (data[0] % 3) {
    case 0:
      fuzz_hello(in);
      break;
    case 1:
      fuzz_wire(in);
      break;
    default:
      fuzz_descriptors(in);
      break;
  }
  return 0;
}
