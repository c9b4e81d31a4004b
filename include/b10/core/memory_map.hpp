#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <b10/core/address_of.hpp>
#include <b10/core/grant_state.hpp>
#include <b10/core/intervals.hpp>
#include <b10/outcome.hpp>
#include <b10/time.hpp>
#include <b10/types.hpp>

namespace b10::core {

/// Whether only granted spans, or all registered memory, may be written by peers.
enum class Grants : std::uint8_t { strict, registered };

/// The only memory a peer can ever write: registered regions, and in strict mode the granted spans
/// inside them. Addresses are compared, never followed. Thread-safe (one mutex, never taken per
/// chunk and never held while spans are gone through, so that a large grant on one thread does not
/// hold up the lane).
class MemoryMap {
 public:
  explicit MemoryMap(Grants mode) : mode_(mode) {}

  /// Throws Error{invalid_request}: null, empty, wrapping around 2^64, overlapping a registered
  /// region.
  void add(LocalSpan region);
  /// Throws Error{refused} while a live grant or an active copy lies in it; Error{invalid_request}
  /// if unknown. In registered mode transfers into it that have no copy active now can start no
  /// further one.
  void remove(LocalSpan region);
  /// The grant lives until it is revoked, forgotten or expired. Spans may touch, overlap and cross
  /// from one region into the next. Throws Error{invalid_request}: request 0, request already
  /// granted (until it is forgotten), span outside registered memory, empty, wrapping.
  std::shared_ptr<GrantState> grant(RequestId request, std::span<LocalSpan const> spans,
                                    std::optional<PeerId> only_from, Instant expires);
  /// Forgets the request's grant (after revoke, or when the request is done) and revokes it. Copies
  /// still active keep their region from being removed.
  void forget(RequestId request) noexcept;

  /// Whether the request has a grant of its own.
  [[nodiscard]] bool granted(RequestId request) const { return find(request) != nullptr; }

  struct Permission {
    std::shared_ptr<GrantState> grant;
    Instant expires;
  };
  /// Whether `peer` may now write all of `spans` for `request`; else why not, with value and limit:
  /// Error{cancelled} if the grant was taken back (the last 1,024 are remembered), else
  /// Error{refused}. A granted request is held to its grant in both modes. An empty span needs no
  /// permission: nothing is written through it. Linear in the spans, in any order. Nothing is
  /// changed.
  [[nodiscard]] std::variant<Permission, Error> check(PeerId peer, RequestId request,
                                                      std::span<RemoteSpan const> spans,
                                                      Instant now) const;

 private:
  struct Record {
    GrantState state{};
    IntervalSet spans{};
    std::optional<PeerId> only_from{};
    Instant expires{};
  };
  using Regions = std::shared_ptr<IntervalSet const>;  // all regions; touching ones merged

  [[nodiscard]] std::shared_ptr<Record> find(RequestId request) const;
  [[nodiscard]] bool forgotten(RequestId request) const;
  [[nodiscard]] std::variant<Permission, Error> open(RequestId request,
                                                     std::span<RemoteSpan const> spans) const;
  void cover();
  void require_unused(Interval const& region);

  Grants const mode_;
  mutable std::mutex mutex_{};  // guards what follows
  std::vector<Interval> regions_{};
  Regions covered_ = std::make_shared<IntervalSet const>();
  std::map<RequestId, std::shared_ptr<Record>> grants_{};
  std::multimap<RequestId, std::shared_ptr<Record>> draining_{};  // forgotten with copies active
  std::array<RequestId, 1024> forgotten_{};                       // the last ones, in a ring
  std::size_t forgotten_next_ = 0;
  mutable std::vector<std::weak_ptr<Record>> open_{};  // registered mode: transfers without a grant
};

namespace detail {

[[nodiscard]] inline std::string hex(std::uint64_t value) {
  std::string text;
  do text.insert(text.begin(), "0123456789abcdef"[value & 15]);
  while ((value >>= 4) != 0);
  return std::string("0x").append(text);
}

/// "3 (0x1000, 256 bytes, device -1)"
template <class Span>
[[nodiscard]] std::string describe(std::size_t index, Span const& span) {
  return std::to_string(index) + " (" + hex(address_of(span)) + ", " + std::to_string(span.bytes) +
         " bytes, device " + std::to_string(to_integer(span.device)) + ")";
}

[[noreturn]] inline void invalid(std::string const& what) {
  throw Error(Reason::invalid_request, what);
}

/// The bytes of a span, or an Error that says what is wrong with it.
[[nodiscard]] inline Interval valid_interval(char const* what, std::size_t index,
                                             LocalSpan const& s) {
  auto const name = [&] { return std::string(what).append(1, ' ').append(describe(index, s)); };
  if (s.address == nullptr) invalid(name() + " is null");
  if (s.bytes == 0) invalid(name() + " is empty");
  if (wraps(address_of(s), s.bytes)) invalid(name() + " wraps around 2^64");
  return {s.device, address_of(s), address_of(s) + s.bytes};
}

/// Index of the first span that is not inside `allowed`, or spans.size(). seen(interval index,
/// span) for each that is.
template <class Seen>
[[nodiscard]] std::size_t first_outside(IntervalSet const& allowed,
                                        std::span<RemoteSpan const> spans, Seen&& seen) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    auto const& s = spans[i];
    if (s.bytes == 0) continue;
    if (wraps(s.address, s.bytes)) return i;
    Interval const interval{s.device, s.address, s.address + s.bytes};
    auto const at = allowed.find(interval);
    if (at == IntervalSet::none) return i;
    seen(at, interval);
  }
  return spans.size();
}

}  // namespace detail

inline void MemoryMap::cover() {
  covered_ = std::make_shared<IntervalSet const>(IntervalSet(regions_));
}

inline void MemoryMap::add(LocalSpan region) {
  auto const added = detail::valid_interval("region", 0, region);
  std::lock_guard const lock(mutex_);
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    auto const& other = regions_[i];
    if (other.device != added.device || added.end <= other.begin || other.end <= added.begin)
      continue;
    detail::invalid("region " + detail::describe(regions_.size(), region) +
                    " overlaps registered region " + std::to_string(i) + ", [" +
                    detail::hex(other.begin) + ", " + detail::hex(other.end) + ")");
  }
  regions_.push_back(added);
  cover();
}

/// Throws if something may still write into the region. Transfers without a grant are cut off, all
/// or none of them.
inline void MemoryMap::require_unused(Interval const& region) {
  auto const refuse = [&](Record const& r, std::string const& who) {
    if (r.state.quiescent() || !r.spans.touches(region)) return;
    throw Error(Reason::refused,
                "region at " + detail::hex(region.begin) + " is in use by " + who + " with " +
                    std::to_string(r.state.active_copies()) +
                    " active copies: revoke its grant and wait until it is quiescent");
  };
  for (auto const& [request, record] : grants_) {
    refuse(*record, "request " + std::to_string(to_integer(request)));
  }
  std::erase_if(draining_, [](auto const& item) { return item.second->state.quiescent(); });
  for (auto const& [request, record] : draining_) {
    refuse(*record, "ended request " + std::to_string(to_integer(request)));
  }
  std::vector<std::shared_ptr<Record>> idle;
  for (auto const& weak : open_) {
    auto const record = weak.lock();
    if (!record || !record->spans.touches(region)) continue;
    if (record->state.active_copies() > 0) refuse(*record, "a transfer");
    idle.push_back(record);
  }
  for (auto const& record : idle) {
    if (!record->state.revoke_if_idle()) refuse(*record, "a transfer");
  }
}

inline void MemoryMap::remove(LocalSpan region) {
  auto const removed = detail::valid_interval("region", 0, region);
  std::lock_guard const lock(mutex_);
  auto const it = std::find(regions_.begin(), regions_.end(), removed);
  if (it == regions_.end()) {
    detail::invalid("region " + detail::describe(0, region) + " is not registered");
  }
  require_unused(removed);
  regions_.erase(it);
  cover();
}

inline std::shared_ptr<GrantState> MemoryMap::grant(RequestId request,
                                                    std::span<LocalSpan const> spans,
                                                    std::optional<PeerId> only_from,
                                                    Instant expires) {
  auto const id = std::to_string(to_integer(request));
  if (request == RequestId{0})
    detail::invalid("request id 0 means none: give each request an id of its own");
  auto record = std::make_shared<Record>();
  record->only_from = only_from;
  record->expires = expires;
  std::vector<Interval> intervals;
  intervals.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    intervals.push_back(detail::valid_interval("span", i, spans[i]));
  }
  record->spans = IntervalSet(intervals);
  for (Regions seen;;) {
    std::unique_lock lock(mutex_);
    if (seen == covered_) {  // what was examined without the lock still holds
      if (!grants_.emplace(request, record).second)
        detail::invalid("duplicate id: request " + id + " is granted already");
      std::erase_if(draining_, [](auto const& item) { return item.second->state.quiescent(); });
      return {record, &record->state};
    }
    seen = covered_;
    lock.unlock();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (seen->find(intervals[i]) == IntervalSet::none) {
        detail::invalid("span " + detail::describe(i, spans[i]) + " of request " + id +
                        " is not inside registered memory: register its region first");
      }
    }
  }
}

inline void MemoryMap::forget(RequestId request) noexcept {
  std::lock_guard const lock(mutex_);
  auto node = grants_.extract(request);
  if (!node) return;
  forgotten_[forgotten_next_++ % forgotten_.size()] = request;
  node.mapped()->state.revoke();
  if (!node.mapped()->state.quiescent()) draining_.insert(std::move(node));
}

inline std::shared_ptr<MemoryMap::Record> MemoryMap::find(RequestId request) const {
  std::lock_guard const lock(mutex_);
  auto const it = grants_.find(request);
  return it == grants_.end() ? nullptr : it->second;
}

inline bool MemoryMap::forgotten(RequestId request) const {
  std::lock_guard const lock(mutex_);
  return std::find(forgotten_.begin(), forgotten_.end(), request) != forgotten_.end();
}

inline std::variant<MemoryMap::Permission, Error> MemoryMap::check(
    PeerId peer, RequestId request, std::span<RemoteSpan const> spans, Instant now) const {
  auto const name = "request " + std::to_string(to_integer(request));
  auto const no = [](std::string const& why) { return Error(Reason::refused, why); };
  auto const revoked = [&] {
    return Error(Reason::cancelled, "the grant of " + name + " was revoked");
  };
  if (request == RequestId{0}) return no("request id 0 means none and is never granted");
  auto const record = find(request);
  if (!record) {
    if (mode_ == Grants::registered) return open(request, spans);
    return forgotten(request) ? revoked() : no(name + " has no grant here");
  }
  if (record->only_from && *record->only_from != peer) {
    return no(name + " is granted to peer " + std::to_string(to_integer(*record->only_from)) +
              ", not to peer " + std::to_string(to_integer(peer)));
  }
  if (record->state.revoked()) return revoked();
  if (now >= record->expires) {
    return no("the grant of " + name + " expired " +
              std::to_string((now - record->expires).ns / 1'000'000) + " ms ago");
  }
  auto const outside = detail::first_outside(record->spans, spans, [](auto...) {});
  if (outside < spans.size()) {
    return no("span " + detail::describe(outside, spans[outside]) + " is not inside the grant of " +
              name);
  }
  return Permission{{record, &record->state}, record->expires};
}

/// Registered mode: one permission for each transfer, noted so that remove() finds it.
inline std::variant<MemoryMap::Permission, Error> MemoryMap::open(
    RequestId request, std::span<RemoteSpan const> spans) const {
  auto record = std::make_shared<Record>();
  record->expires = Instant{std::numeric_limits<std::int64_t>::max()};
  for (Regions seen;;) {
    std::unique_lock lock(mutex_);
    if (seen == covered_) {
      if (open_.size() == open_.capacity()) {  // about to grow: forget those that have ended first
        std::erase_if(open_, [](auto const& weak) { return weak.expired(); });
        open_.reserve(2 * open_.size() + 16);
      }
      open_.push_back(record);
      return Permission{{record, &record->state}, record->expires};
    }
    seen = covered_;
    lock.unlock();
    std::map<std::size_t, Interval> hulls;  // per run of regions, what the transfer may write of it
    std::size_t last = IntervalSet::none;
    Interval* hull = nullptr;
    auto const outside =
        detail::first_outside(*seen, spans, [&](std::size_t at, Interval const& span) {
          if (at != last) hull = &hulls.try_emplace(at, span).first->second;
          last = at;
          hull->begin = std::min(hull->begin, span.begin);
          hull->end = std::max(hull->end, span.end);
        });
    if (outside < spans.size()) {
      return Error(Reason::refused, "span " + detail::describe(outside, spans[outside]) +
                                        " of request " + std::to_string(to_integer(request)) +
                                        " is not inside registered memory");
    }
    std::vector<Interval> touched;
    for (auto const& item : hulls) touched.push_back(item.second);
    record->spans = IntervalSet(std::move(touched));
  }
}

}  // namespace b10::core
