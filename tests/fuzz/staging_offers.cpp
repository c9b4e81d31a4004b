// Offers of staging, and the places in it that a peer names later.
#include "fuzz.hpp"

#include <optional>

#include <unistd.h>

#include <b10/staging/shared_host.hpp>
#if __has_include(<cuda_runtime_api.h>)
#include <b10/staging/device_memory.hpp>
#endif

namespace fuzz {
namespace {

using namespace b10;
using namespace b10::staging;

using Memory = SharedMemory<NoPinning>;
using Reach = SharedReach<NoPinning>;

Memory& segment() {
  static Memory memory({.block_bytes = 5000, .blocks = 2, .lives = 3, .pinning = {}});
  return memory;
}

/// One word of an honest offer replaced: the offers that come closest.
std::string changed_offer(Input& in) {
  std::string text;
  auto const which = in.below(10);
  auto const honest = encode(segment().offer());
  OfferWords words(honest);
  for (unsigned i = 0; i < 9; ++i) {
    auto const word = words.word();
    add_word(text, i == which ? as_text(in.piece()) : word);
  }
  return text;
}

/// What a place leads to lies inside one block of the segment, or nowhere.
void check_reach(Reach& reach, SegmentOffer const& offer, Input& in) {
  auto* const base = reach.at(segment_head_bytes, 0);
  while (in.left() > 0) {
    auto const place = in.number<std::uint64_t>() >> in.below(64);
    auto const bytes = in.number<std::uint64_t>() >> in.below(64);
    auto* const at = reach.at(place, bytes);
    if (!at) continue;
    require(base != nullptr &&
            at - base == static_cast<std::ptrdiff_t>(place - segment_head_bytes));
    require(place >= segment_head_bytes && bytes <= offer.bytes && place <= offer.bytes - bytes);
    auto const first = (place - segment_head_bytes) / offer.block_bytes;
    auto const end = place - segment_head_bytes + bytes;
    require(end <= (first + 1) * offer.block_bytes);
  }
}

void shared(std::string const& text, Input in) {
  auto known = decode_offer(text);
  if (!known) return;
  auto const again = decode_offer(encode(*known));
  require(again && encode(*again) == encode(*known));
  // Other processes are none of the fuzzer's business.
  if (known->pid != segment().offer().pid) known->pid = 0;
  std::string why;
  auto mapping = map_segment(*known, why);
  require(mapping.has_value() == why.empty());
  if (!mapping) return;
  Reach reach(std::move(*mapping), *known, {});
  check_reach(reach, *known, in);
}

void device([[maybe_unused]] std::string const& text) {
#if __has_include(<cuda_runtime_api.h>)
  if (auto const offer = decode_device_offer(text)) {
    auto const again = decode_device_offer(encode(*offer));
    require(again && encode(*again) == encode(*offer));
  }
#endif
}

void run(Bytes bytes) {
  Input in(bytes);
  switch (in.number<std::uint8_t>() % 3) {
    case 0: {
      auto const text = changed_offer(in);
      return shared(text, in);
    }
    case 1:
      return shared(std::string(as_text(in.rest())), Input({}));
    default:
      return device(std::string(as_text(in.rest())));
  }
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  // Fixed texts where the real ones differ on every machine; `run` puts in its own.
  SegmentOffer const offer{"boot", "pid:[1]", 1, 2, 1u << 20, 8192, 4, std::string(32, 'a')};
  out.push_back(Seed().number<std::uint8_t>(1).bytes(as_byte_view(encode(offer))).take());
  auto const change = [](std::uint32_t which, std::string_view word) {
    return Seed().number<std::uint8_t>(0).number(which).piece(as_byte_view(word)).take();
  };
  for (std::uint32_t which = 0; which < 9; ++which) {
    out.push_back(change(which, "18446744073709551615"));
    out.push_back(change(which, "0"));
  }
  out.push_back(change(6, "1"));
  auto places = Seed().number<std::uint8_t>(0).number<std::uint32_t>(9);
  for (std::uint64_t const place : {0u, 4095u, 4096u, 12287u, 12288u, 30000u, 53247u, 53248u})
    places.number(place).number<std::uint32_t>(0).number<std::uint64_t>(5000).number<std::uint32_t>(
        0);
  out.push_back(places.take());
#if __has_include(<cuda_runtime_api.h>)
  DeviceOffer const gpu{"boot", 1, 1u << 21, {}, 1u << 20, 8192, std::string(32, 'a')};
  out.push_back(Seed().number<std::uint8_t>(2).bytes(as_byte_view(encode(gpu))).take());
#endif
  return out;
}

}  // namespace

Target const staging_offers{"staging_offers", run, seeds};

}  // namespace fuzz
