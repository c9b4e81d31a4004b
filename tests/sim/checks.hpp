#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <b10/copy/fake_control.hpp>
#include <b10/metrics.hpp>

#include "sim/graveyard.hpp"
#include "sim/job.hpp"
#include "sim/pattern.hpp"
#include "sim/pool.hpp"
#include "sim/tally.hpp"
#include "sim/watcher.hpp"

namespace campaign {

/// The standing rules that are read from memory and gauges (K1-K3, K6), and what a breach is.
class Checks {
 public:
  /// `digested`: what a failed transfer has written may be damaged, as its digest has said.
  Checks(Tally& tally, Watcher const& watcher, bool digested)
      : tally_(tally), watcher_(watcher), digested_(digested) {}

  std::uint64_t bytes_landed = 0;

  [[nodiscard]] static std::string describe(Job const& j, std::string const& more) {
    return "job " + std::to_string(j.serial) + " from n" + std::to_string(j.from) + " to n" +
           std::to_string(j.to) + ", " + std::to_string(j.bytes) + " bytes, request " +
           std::to_string(to_integer(j.request)) + " " + more;
  }
  template <class Node>
  [[nodiscard]] static std::string describe(Node const& n) {
    auto const& m = n.transceiver->metrics();
    return n.name + ": free " + std::to_string(m.staging_free.get()) + ", leased " +
           std::to_string(m.staging_leased.get()) + ", quarantined " +
           std::to_string(m.staging_quarantined.get()) + ", abandoned " +
           std::to_string(m.staging_abandoned.get()) + ", total " +
           std::to_string(m.staging_total.get()) + ", running " +
           std::to_string(m.transfers_running.get()) + ", tags " +
           std::to_string(m.tags_active.get()) + " + " + std::to_string(m.tags_quarantined.get());
  }

  /// Sources hold the job's pattern, destinations a canary.
  static void prepare(Job const& j, Pool& from, Pool& to) {
    for (auto const page : j.from_pages) from.paint(page, poisoned_word);
    for (auto const page : j.to_pages) to.paint(page, fresh_word);
    for (Piece const& p : j.pieces)
      for (std::uint32_t w = 0; w < p.words; ++w)
        store(p.from + w * sizeof(Word), pattern(j.serial, p.first + w));
    for (auto const page : j.from_pages) from.settle(page);
    for (auto const page : j.to_pages) to.open(page);
  }

  /// K1 on the receiver, and K3 in its whole pool.
  void landed(Job const& j, Pool& pool) {
    bytes_landed += j.bytes;
    for (Piece const& p : j.pieces)
      for (std::uint32_t w = 0; w < p.words; ++w) {
        Word const is = load(p.to + w * sizeof(Word));
        if (is == pattern(j.serial, p.first + w)) continue;
        tally_.breach(kind_of(j, is), describe(j, origin_text(is)));
        goto wrong;  // one for each transfer
      }
  wrong:
    beside(j, pool);
    for (auto const page : j.to_pages) pool.settle(page);
    whole(pool, j);
  }
  /// K1 on the sender.
  void claimed_early(Job const& j) {
    for (Piece const& p : j.pieces)
      for (std::uint32_t w = 0; w < p.words; ++w)
        if (load(p.to + w * sizeof(Word)) != pattern(j.serial, p.first + w))
          return tally_.breach(Breach::success_before_landing, describe(j, ""));
  }
  /// K2 of sources.
  void source_given_back(Job const& j, b10::copy::FakeControl const& copies) {
    if (is_gathering(j, copies)) tally_.breach(Breach::gather_on_free_page, describe(j, ""));
  }
  [[nodiscard]] static bool is_gathering(Job const& j, b10::copy::FakeControl const& copies) {
    return std::any_of(j.pieces.begin(), j.pieces.end(), [&](Piece const& p) {
      return copies.touches(b10::copy::Direction::gather, p.from, p.words * sizeof(Word));
    });
  }
  /// K2 of destinations, and what a transfer that failed may leave behind.
  void destination_given_back(Job const& j, Pool& pool, b10::copy::FakeControl const& copies) {
    for (Piece const& p : j.pieces)
      if (copies.touches(b10::copy::Direction::scatter, p.to, p.words * sizeof(Word))) {
        tally_.breach(Breach::scatter_on_free_page, describe(j, ""));
        break;
      }
    if (j.landed) return;  // checked when it did
    for (Piece const& p : j.pieces)
      for (std::uint32_t b = 0; b < p.words * sizeof(Word); ++b) {
        Word const own = pattern(j.serial, p.first + b / static_cast<std::uint32_t>(sizeof(Word)));
        auto const at = b % sizeof(Word) * 8;
        auto const is = static_cast<Word>(p.to[b]);
        if (digested_ || is == (own >> at & 0xff) || is == (fresh_word & 0xff)) continue;
        tally_.breach(Breach::failed_span_wrong,
                      describe(j, origin_text(load(p.to + b / sizeof(Word) * sizeof(Word)))));
        return beside(j, pool);
      }
    beside(j, pool);
  }
  /// K3: all that is not being written is as it must be.
  void whole(Pool& pool, Job const& j) {
    auto const wrong = pool.first_wrong();
    if (wrong == pool_bytes) return;
    auto const word = wrong / sizeof(Word) * sizeof(Word);
    tally_.breach(Breach::written_outside, "page " + std::to_string(wrong / page_bytes) + ", " +
                                               origin_text(load(pool.memory() + word)) +
                                               "; seen at " + describe(j, ""));
    pool.accept();
  }
  /// K6.
  template <class Node>
  void books(Node const& n) {
    auto const& m = n.transceiver->metrics();
    if (m.staging_free.get() + m.staging_leased.get() + m.staging_quarantined.get() +
            m.staging_abandoned.get() !=
        m.staging_total.get())
      tally_.breach(Breach::staging_books, describe(n));
  }
  /// Nothing is leased or quarantined any more, and the pool has been refilled.
  template <class Node>
  [[nodiscard]] static bool is_whole(Node const& n, std::uint64_t bytes) {
    auto const& m = n.transceiver->metrics();
    return m.staging_free.get() == bytes && m.staging_leased.get() == 0 &&
           m.staging_quarantined.get() == 0 && m.tags_active.get() == 0 &&
           m.tags_quarantined.get() == 0 && m.transfers_running.get() == 0;
  }

 private:
  /// The rest of the job's destination pages still holds the canary.
  void beside(Job const& j, Pool const& pool) {
    for (std::size_t i = 0; i < j.to_pages.size(); ++i) {
      auto const* const at = pool.at(j.to_pages[i]);
      for (std::size_t w = 0; w < page_bytes / sizeof(Word); ++w) {
        Word const is = load(at + w * sizeof(Word));
        if (is == fresh_word || (j.named[i] >> w & 1) != 0) continue;
        return tally_.breach(Breach::written_outside, describe(j, origin_text(is)));
      }
    }
  }
  [[nodiscard]] Breach kind_of(Job const& j, Word is) const {
    if (is == poisoned_word) return Breach::source_reused;
    if (is == fresh_word || is == retired_word) return Breach::hole;
    if (is == Graveyard::grave_word) return Breach::hole;  // of staging nobody has written
    Origin const o = origin_of(is);
    if (!o.known) return Breach::garbage;
    if (o.serial == j.serial) return Breach::misplaced;
    auto const id = to_integer(request_of(o.serial));
    if (watcher_.was_alias(id)) return Breach::other_transfer;
    return watcher_.was_late(id) ? Breach::recycled_staging : Breach::hole;
  }
  [[nodiscard]] static std::string origin_text(Word is) {
    Origin const o = origin_of(is);
    if (o.known)
      return "found word " + std::to_string(o.index) + " of job " + std::to_string(o.serial);
    if (is == poisoned_word) return "found a source page given back";
    if (is == fresh_word) return "found the canary";
    if (is == retired_word) return "found a destination page given back";
    return "found " + std::to_string(is);
  }

  Tally& tally_;
  Watcher const& watcher_;
  bool digested_;
};

}  // namespace campaign
