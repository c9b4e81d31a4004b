// Packed descriptors: as a receiver takes them, in segments, each followed by the checks that
// decide what may be written, and the cut into chunks.
#include "fuzz.hpp"

#include <limits>
#include <memory>
#include <variant>

#include <b10/core/descriptors.hpp>
#include <b10/core/memory_map.hpp>
#include <b10/core/plan.hpp>

namespace fuzz {
namespace {

using namespace b10;
using namespace b10::core;

/// Every byte of the spans is named by exactly one chunk, in order, and no chunk exceeds a slice.
void check_chunks(std::span<RemoteSpan const> spans, std::span<Chunk const> chunks,
                  std::uint64_t slice_bytes, std::uint64_t total) {
  std::size_t span = 0;
  std::uint64_t within = 0, sum = 0;
  for (Chunk const& c : chunks) {
    require(c.bytes >= 1 && c.bytes <= slice_bytes && c.count >= 1);
    require(c.first == span && c.skip == within);
    sum += c.bytes;
    for (auto left = c.bytes; left > 0;) {
      require(span < spans.size() && span < c.first + c.count);
      auto const n = std::min(left, spans[span].bytes - within);
      left -= n;
      within += n;
      if (within == spans[span].bytes) ++span, within = 0;
    }
  }
  require(sum == total && span == spans.size() && within == 0);
}

/// Bytes of two grants: [64 Ki, 128 Ki) and [192 Ki, 1 Gi); the second begins another region.
struct Granted {
  static constexpr std::uint64_t ranges[][2] = {{1u << 16, 1u << 17}, {3u << 16, 1u << 30}};
  MemoryMap map{Grants::strict};

  Granted() {
    std::vector<LocalSpan> spans;
    for (auto const& r : ranges) {
      spans.push_back({reinterpret_cast<std::byte*>(r[0]), r[1] - r[0], Device::host});
      map.add(spans.back());
    }
    (void)map.grant(RequestId{1}, spans, std::nullopt, Instant{seconds(1).ns});
  }
  [[nodiscard]] static bool hold(RemoteSpan const& s) {
    for (auto const& r : ranges)
      if (s.device == Device::host && s.address >= r[0] && s.address + s.bytes <= r[1]) return true;
    return false;
  }
};

void hostile(Input in) {
  Granted const granted;
  auto const expected = in.number<std::uint16_t>();
  auto const sum = in.number<std::uint64_t>() >> (in.number<std::uint8_t>() % 64);
  auto const slice_bytes = 1 + in.below(1u << 20);
  DescriptorUnpacker unpacker(expected, sum);
  Cutter cutter(slice_bytes);
  std::uint64_t total = 0;
  std::size_t seen = 0;
  bool cut_refused = false;
  while (in.left() > 0) {
    auto const why = unpacker.feed(in.piece());
    require(unpacker.spans().size() <= expected && unpacker.spans().capacity() <= expected);
    std::span<RemoteSpan const> const all(unpacker.spans());
    auto const fresh = all.subspan(seen);
    seen = all.size();
    bool all_granted = true;
    for (RemoteSpan const& s : fresh) {
      require(s.bytes != 0 && s.address != 0 && s.address <= ~s.bytes && s.device >= Device::host);
      total += s.bytes;
      require(total >= s.bytes && total <= sum);
      all_granted = all_granted && Granted::hold(s);
    }
    auto const verdict = granted.map.check(PeerId{0}, RequestId{1}, fresh, Instant{});
    require(std::holds_alternative<MemoryMap::Permission>(verdict) == all_granted);
    if (!why.empty()) break;
    try {
      for (RemoteSpan const& s : fresh) cutter.add(s.bytes);
    } catch (Error const&) {
      cut_refused = true;
      break;
    }
  }
  if (cut_refused || !unpacker.complete()) return;
  require(seen == expected && total == sum);
  cutter.finish();
  check_chunks(unpacker.spans(), cutter.chunks(), slice_bytes, total);
  require(cutter.chunks() == cut(std::span<RemoteSpan const>(unpacker.spans()), slice_bytes));
}

/// Any list of sound spans comes out of its segments as it went in, however long these are.
void honest(Input in) {
  std::vector<RemoteSpan> spans;
  std::uint64_t total = 0;
  auto const segment_bytes = DescriptorPacker::segment_bytes_min + in.below(200);
  while (in.left() > 0 && spans.size() < 300) {
    auto const how = in.number<std::uint8_t>();
    RemoteSpan s = spans.empty() ? RemoteSpan{4096, 256, Device::host} : spans.back();
    if (how & 1) s.address += std::uint64_t{in.number<std::uint16_t>()} << (how >> 4);
    if (how & 2) s.address = in.number<std::uint64_t>();
    if (how & 4) s.bytes = in.number<std::uint64_t>() >> (how >> 2);
    if (how & 8) s.device = static_cast<Device>(in.number<std::uint8_t>() - 1);
    if (s.address == 0 || s.bytes == 0 || s.address > ~s.bytes || total + s.bytes < total) continue;
    total += s.bytes;
    spans.push_back(s);
    for (std::size_t back = how >> 5; back > 0 && spans.size() > back; --back) {
      auto again = spans[spans.size() - back];
      again.address += 4096;
      if (again.address > ~again.bytes || again.address == 0 || total + again.bytes < total) break;
      total += again.bytes;
      spans.push_back(again);
    }
  }
  DescriptorUnpacker unpacker(spans.size(), total);
  std::vector<std::byte> segment(segment_bytes);
  for (DescriptorPacker packer(spans); !packer.done();) {
    auto const used = packer.pack(segment);
    require(used > 0 && used <= segment.size());
    require(unpacker.feed(std::span(segment).first(used)).empty());
  }
  require(unpacker.complete() && unpacker.spans() == spans);
}

void run(Bytes bytes) {
  Input in(bytes);
  in.number<std::uint8_t>() % 2 == 0 ? hostile(in) : honest(in);
}

/// A KV pool: `layers` of `blocks` at one stride, blocks in a scattered order.
std::vector<RemoteSpan> paged(std::uint64_t layers, std::uint64_t blocks, std::uint64_t bytes) {
  std::vector<RemoteSpan> out;
  for (std::uint64_t layer = 0; layer < layers; ++layer)
    for (std::uint64_t i = 0; i < blocks; ++i)
      out.push_back({(1u << 20) + layer * 64 * bytes + (i * 7 % 64) * bytes, bytes, Device::host});
  return out;
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  auto const add = [&](std::vector<RemoteSpan> const& spans, std::size_t segment_bytes) {
    std::uint64_t sum = 0;
    for (auto const& s : spans) sum += s.bytes;
    Seed seed;
    seed.number<std::uint8_t>(0).number(static_cast<std::uint16_t>(spans.size()));
    seed.number(sum).number<std::uint8_t>(0).number<std::uint32_t>(4095);
    std::vector<std::byte> segment(segment_bytes);
    for (DescriptorPacker packer(spans); !packer.done();)
      seed.piece(std::span(segment).first(packer.pack(segment)));
    out.push_back(seed.take());
  };
  add(paged(4, 20, 2048), 200);
  add(paged(1, 300, 256), 64);
  add({{~std::uint64_t{0} - 4096, 4096, Device{3}}, {1u << 16, 512, Device::host}}, 64);
  add({{1u << 16, 1000, Device::host}, {(1u << 16) + 1000, 1, Device::host}}, 64);
  add({{3u << 16, (1u << 30) - (3u << 16), Device::host}}, 64);
  Seed mixed;
  mixed.number<std::uint8_t>(1).number<std::uint32_t>(10);
  for (unsigned how = 0; how < 60; ++how)
    mixed.number(static_cast<std::uint8_t>(how * 5)).number<std::uint64_t>(how * 0x12345);
  out.push_back(mixed.take());
  return out;
}

}  // namespace

Target const descriptors{"descriptors", run, seeds};

}  // namespace fuzz
