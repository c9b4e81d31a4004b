#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <b10/core/prefetch.hpp>
#include <b10/core/span_list.hpp>
#include <b10/core/varint.hpp>
#include <b10/types.hpp>

namespace b10::core {

// A segment is: shift (1 byte), size shift (1 byte), then tokens. A token starts with a varint t:
//
//   t = 2 z          literal: address = last address + (unzigzag(z) << shift), size and device of
//                    the span before.
//   t = 8 n + 1      match: the next n spans repeat those `distance` back, all moved by what the
//                    last span is away from the one `distance` before it (modulo 2^64). Varint
//                    distance follows; 0 is the distance of the last match.
//   t = 8 z + 3      sized: as a literal, then varint size >> size shift.
//   t = 8 (d+1) + 5  full: device d (-1 is host), then varint address, varint size.
//
// KV pools repeat one sequence of block slots for each layer, or one sequence of layers for each
// block; matches of either cost a few bytes for thousands of spans. Distance 1 is a stride.
// Only the shifts belong to a segment; spans, last distance and matches reach across segments.
namespace packing {

inline constexpr std::uint64_t literal_bits = 1;
inline constexpr std::uint64_t kind_bits = 3;
inline constexpr std::uint64_t kind_mask = (1u << kind_bits) - 1;
enum Kind : std::uint64_t { match = 1, sized = 3, full = 5 };

inline constexpr std::size_t segment_header_bytes = 2;
inline constexpr std::size_t token_bytes_max = 3 * varint_bytes_max;

}  // namespace packing

/// Packs destination spans into segments, each at most as long as the buffer given, so that the
/// first can leave before the last is packed.
///
/// The spans are referred to, not copied: they outlive the packer, unchanged. Time O(spans) for
/// all segments together, O(out.size() + spans_per_segment_max) for one. One thread at a time.
class DescriptorPacker {
 public:
  /// A segment is closed after so many spans even if it has room: what was packed shall leave.
  static constexpr std::size_t spans_per_segment_max = std::size_t{1} << 16;
  static constexpr std::size_t segment_bytes_min = 64;

  /// At most 2^32 - 1 spans (make_plan sees to that).
  explicit DescriptorPacker(std::span<RemoteSpan const> spans)
      : spans_(spans),
        seen_(std::bit_ceil(std::clamp<std::size_t>(2 * spans.size(), 16, 65'536)), 0) {}

  [[nodiscard]] bool done() const noexcept { return next_ == spans_.size(); }

  /// Fills `out` with the next segment; returns its bytes: > 0 unless done, at most out.size().
  /// out.size() >= segment_bytes_min, else nothing is packed. `spans_max` > 0: no more spans.
  std::size_t pack(std::span<std::byte> out,
                   std::size_t spans_max = spans_per_segment_max) noexcept {
    if (done() || out.size() < segment_bytes_min) return 0;
    spans_max = std::min({spans_max, spans_per_segment_max, spans_.size() - next_});
    choose_shifts(std::min(out.size(), spans_max));
    std::byte* at = out.data();
    *at++ = static_cast<std::byte>(shift_);
    *at++ = static_cast<std::byte>(size_shift_);
    limit_ = next_ + spans_max;
    auto const* const last_start = out.data() + (out.size() - packing::token_bytes_max);
    while (next_ < limit_ && at <= last_start) at = put_token(at);
    return static_cast<std::size_t>(at - out.data());
  }

 private:
  [[nodiscard]] std::uint64_t delta(std::size_t i) const noexcept {
    return spans_[i].address - spans_[i - 1].address;
  }

  /// The shifts that suit the next spans. Others are still packed, only longer.
  void choose_shifts(std::size_t spans) noexcept {
    std::uint64_t deltas = 0;
    std::uint64_t sizes = 0;
    for (std::size_t i = next_; i < next_ + spans; ++i) {
      prefetch_to_read(&spans_[i]);
      if (i > 0) deltas |= delta(i);
      sizes |= spans_[i].bytes;
    }
    shift_ = deltas == 0 ? 0 : static_cast<unsigned>(std::countr_zero(deltas));
    size_shift_ = sizes == 0 ? 0 : static_cast<unsigned>(std::countr_zero(sizes));
  }

  std::byte* put_token(std::byte* at) noexcept {
    if (next_ < 2) return put_single(at);
    if (std::size_t const n = match_length(distance_); n >= 2) return put_match(at, n, distance_);
    std::size_t const distance = remembered();
    if (std::size_t const n = match_length(distance); n >= 2) return put_match(at, n, distance);
    return put_single(at);
  }

  /// How far back the next two spans were seen in the same relation; 0: not known. Remembers them.
  std::size_t remembered() noexcept {
    if (next_ + 1 >= spans_.size()) return 0;
    constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15u;  // 2^64 / golden ratio
    std::uint64_t const hash = ((delta(next_) * odd) ^ std::rotl(delta(next_ + 1), 32)) * odd;
    auto& entry = seen_[static_cast<std::size_t>(hash >> 48) & (seen_.size() - 1)];
    std::size_t const distance = entry == 0 ? 0 : next_ - entry;
    entry = static_cast<std::uint32_t>(next_);
    return distance;
  }

  /// For how many spans, up to the limit of the segment, a match at this distance holds.
  [[nodiscard]] std::size_t match_length(std::size_t distance) const noexcept {
    if (distance == 0 || distance >= next_) return 0;
    RemoteSpan const* const from = spans_.data() + (next_ - distance);
    RemoteSpan const* const to = spans_.data() + next_;
    std::uint64_t const moved = to[-1].address - from[-1].address;
    std::size_t const most = limit_ - next_;
    std::size_t n = 0;
    while (n < most && to[n].address - from[n].address == moved && to[n].bytes == from[n].bytes &&
           to[n].device == from[n].device) {
      prefetch_to_read(to + n);
      ++n;
    }
    return n;
  }

  std::byte* put_match(std::byte* at, std::size_t n, std::size_t distance) noexcept {
    at = put_varint(at, n << packing::kind_bits | packing::match);
    at = put_varint(at, distance == distance_ ? 0 : distance);
    distance_ = distance;
    next_ += n;
    return at;
  }

  std::byte* put_single(std::byte* at) noexcept {
    RemoteSpan const& s = spans_[next_];
    RemoteSpan const& last = next_ == 0 ? s : spans_[next_ - 1];
    auto const step = static_cast<std::int64_t>(s.address - last.address);
    auto const z = zigzag(step >> shift_);
    bool const up = step >= 0;
    bool const short_step = next_ > 0 && s.device == last.device && z >> 60 == 0 &&
                            up == (s.address >= last.address) && (step >> shift_) << shift_ == step;
    ++next_;
    if (short_step && s.bytes == last.bytes) return put_varint(at, z << packing::literal_bits);
    if (short_step && (s.bytes >> size_shift_) << size_shift_ == s.bytes) {
      at = put_varint(at, z << packing::kind_bits | packing::sized);
      return put_varint(at, s.bytes >> size_shift_);
    }
    auto const device = static_cast<std::uint64_t>(std::int64_t{to_integer(s.device)} + 1);
    at = put_varint(at, device << packing::kind_bits | packing::full);
    at = put_varint(at, s.address);
    return put_varint(at, s.bytes);
  }

  std::span<RemoteSpan const> spans_;
  std::size_t next_ = 0;      ///< first span not yet packed
  std::size_t limit_ = 0;     ///< end of what this segment may pack
  std::size_t distance_ = 0;  ///< of the last match
  unsigned shift_ = 0;
  unsigned size_shift_ = 0;
  std::vector<std::uint32_t> seen_;  ///< hash of two steps -> position of the first, 0: none
};

/// The reverse, for hostile input: linear time, memory bounded by spans_expected.
///
/// Every span it yields has a size > 0, an address that is not null, an end that does not wrap
/// around 2^64, and a device >= -1. Whether it may be written is for the memory map to say.
/// Owns the spans; one thread at a time. May throw std::bad_alloc.
class DescriptorUnpacker {
 public:
  /// What CONTROL announced; check spans_expected against Config::spans_max first.
  DescriptorUnpacker(std::uint64_t spans_expected, std::uint64_t bytes_expected)
      : expected_(spans_expected), bytes_left_(bytes_expected) {}

  /// Empty if the segment is well-formed so far, else what is wrong (static text), and every later
  /// call says so again. Segments come in order. Spans of good segments can be used at once.
  [[nodiscard]] std::string_view feed(std::span<std::byte const> segment) {
    if (error_.empty()) error_ = read(segment);
    return error_;
  }
  /// All spans are there and their sizes sum to bytes_expected.
  [[nodiscard]] bool complete() const noexcept {
    return error_.empty() && spans_.size() == expected_ && bytes_left_ == 0;
  }
  [[nodiscard]] SpanList<RemoteSpan>& spans() noexcept { return spans_; }

 private:
  std::string_view read(std::span<std::byte const> in) {
    if (in.size() <= packing::segment_header_bytes) return "descriptor segment is empty";
    shift_ = std::to_integer<unsigned>(in[0]);
    size_shift_ = std::to_integer<unsigned>(in[1]);
    if (shift_ > 63 || size_shift_ > 63) return "descriptor shift exceeds 63";
    in = in.subspan(packing::segment_header_bytes);
    while (!in.empty()) {
      if (spans_.size() == expected_) return "more descriptors than announced";
      if (auto const wrong = read_token(in); !wrong.empty()) return wrong;
    }
    if (spans_.size() == expected_ && bytes_left_ != 0) {
      return "descriptor sizes sum to less than announced";
    }
    return {};
  }

  std::string_view read_token(std::span<std::byte const>& in) {
    std::uint64_t t = 0;
    if (!take_varint(in, t)) return bad_varint;
    if ((t & 1) == 0) return read_step(t >> packing::literal_bits, 0);
    auto const value = t >> packing::kind_bits;
    switch (t & packing::kind_mask) {
      case packing::match:
        return read_match(in, value);
      case packing::sized:
        return read_sized(in, value);
      case packing::full:
        return read_full(in, value);
      default:
        return "unknown descriptor token";
    }
  }

  std::string_view read_sized(std::span<std::byte const>& in, std::uint64_t z) {
    std::uint64_t size = 0;
    if (!take_varint(in, size)) return bad_varint;
    if (size == 0 || (size << size_shift_) >> size_shift_ != size) return bad_size;
    return read_step(z, size << size_shift_);
  }

  /// `bytes` 0: those of the span before.
  std::string_view read_step(std::uint64_t z, std::uint64_t bytes) {
    if (spans_.empty()) return "the first descriptor must be a full one";
    RemoteSpan s = spans_.back();
    auto const units = unzigzag(z);
    auto const step = static_cast<std::int64_t>(static_cast<std::uint64_t>(units) << shift_);
    auto const from = s.address;
    s.address += static_cast<std::uint64_t>(step);
    bool const wrapped = step < 0 ? s.address > from : s.address < from;
    if (step >> shift_ != units || wrapped) return bad_address;
    if (bytes != 0) s.bytes = bytes;
    return append(s);
  }

  std::string_view read_full(std::span<std::byte const>& in, std::uint64_t device) {
    RemoteSpan s;
    if (device > std::uint64_t{1} << 31) return "descriptor device exceeds 2^31 - 1";
    s.device = static_cast<Device>(static_cast<std::int64_t>(device) - 1);
    if (!take_varint(in, s.address) || !take_varint(in, s.bytes)) return bad_varint;
    if (s.bytes == 0) return bad_size;
    return append(s);
  }

  std::string_view append(RemoteSpan const& s) {
    if (!in_range(s.address, s.bytes)) return bad_address;
    if (s.bytes > bytes_left_) return bad_sum;
    bytes_left_ -= s.bytes;
    make_room(1);
    spans_.push_back(s);
    return {};
  }

  std::string_view read_match(std::span<std::byte const>& in, std::uint64_t n) {
    std::uint64_t distance = 0;
    if (!take_varint(in, distance)) return bad_varint;
    if (distance == 0) distance = distance_;
    auto const have = spans_.size();
    if (n == 0 || n > expected_ - have) return "more descriptors than announced";
    if (distance == 0 || distance >= have) return "descriptor match reaches before the first";
    distance_ = distance;
    make_room(static_cast<std::size_t>(n));
    auto const back = static_cast<std::size_t>(distance);
    auto const moved = spans_.back().address - spans_[have - 1 - back].address;
    auto const count = static_cast<std::size_t>(n);
    spans_.resize(have + count);
    auto const good = repeat(spans_.data() + have, count, back, moved);
    spans_.resize(have + good);
    return good == count ? std::string_view{} : bad_match;
  }

  /// Fills to[0..count) from `back` before, up to the first that does not fit; returns how many.
  [[nodiscard]] std::size_t repeat(RemoteSpan* to, std::size_t count, std::size_t back,
                                   std::uint64_t moved) noexcept {
    auto left = bytes_left_;
    std::size_t done = 0;
    for (; done < count; ++done, ++to) {
      // Member by member: a copy of the whole, changed and then stored, costs five times as much,
      // since compilers build it on the stack and read it back wider than it was written.
      prefetch_to_write(to);
      RemoteSpan const& from = *(to - back);
      auto const address = from.address + moved;
      auto const bytes = from.bytes;
      if (!in_range(address, bytes) || bytes > left) break;
      left -= bytes;
      to->address = address;
      to->bytes = bytes;
      to->device = from.device;
    }
    bytes_left_ = left;
    return done;
  }

  /// address - 1 is the largest number for null, so one comparison finds null and wrap-around.
  [[nodiscard]] static bool in_range(std::uint64_t address, std::uint64_t bytes) noexcept {
    return address - 1 < ~bytes;
  }

  /// Little at first, whatever was announced; once more has really come, all of an honest list, so
  /// that it is not copied again: what is not written is address space only. Never more than was
  /// announced.
  void make_room(std::size_t more) {
    constexpr std::size_t at_first = 256;
    constexpr std::size_t then = std::size_t{1} << 20;
    auto const needed = spans_.size() + more;
    if (needed <= spans_.capacity()) return;
    auto const roomy = needed <= at_first ? at_first : std::max(2 * needed, then);
    spans_.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(roomy, expected_)));
  }

  static constexpr std::string_view bad_varint = "descriptor number is malformed";
  static constexpr std::string_view bad_size = "descriptor size is 0 or exceeds 64 bits";
  static constexpr std::string_view bad_address = "descriptor address is null or wraps around 2^64";
  static constexpr std::string_view bad_match =
      "descriptor match wraps around 2^64 or exceeds the sum announced";
  static constexpr std::string_view bad_sum = "descriptor sizes sum to more than announced";

  std::uint64_t expected_;
  std::uint64_t bytes_left_;  ///< of bytes_expected
  std::uint64_t distance_ = 0;
  unsigned shift_ = 0;
  unsigned size_shift_ = 0;
  SpanList<RemoteSpan> spans_;
  std::string_view error_{};
};

}  // namespace b10::core
