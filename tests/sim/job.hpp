#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <b10/grant.hpp>
#include <b10/sim/random.hpp>
#include <b10/time.hpp>
#include <b10/transfer.hpp>
#include <b10/types.hpp>

#include "sim/pattern.hpp"
#include "sim/pool.hpp"

namespace campaign {

/// One element of a WRITE: 8-byte words from a page of the sender to a page of the receiver.
struct Piece {
  std::byte* from;
  std::byte* to;
  std::uint32_t words;
  std::uint32_t first;  ///< index of the first word within the job
};

/// Different ids, of which the low 12 bits recur: an engine may number as it likes.
[[nodiscard]] inline b10::RequestId request_of(std::uint32_t serial) {
  return b10::RequestId{serial % 12 + 1 + std::uint64_t{serial} * 4096};
}

/// One WRITE as the engines of both nodes see it.
struct Job {
  std::uint32_t serial = 0;
  b10::RequestId request{};
  std::size_t from = 0, to = 0;              ///< nodes
  std::uint32_t from_life = 0, to_life = 0;  ///< a node that is restarted begins another life
  std::vector<Piece> pieces{};
  std::vector<std::uint32_t> from_pages{}, to_pages{};
  std::vector<std::uint32_t> named{};  ///< for each of to_pages, a bit for each word written
  std::uint64_t bytes = 0;
  b10::Instant deadline{};         ///< on the sender's clock
  std::uint32_t disturbances = 0;  ///< of the sender's clock or life before it started
  std::optional<b10::Transfer> transfer{};
  std::optional<b10::Grant> grant{};

  std::uint32_t sender_ends = 0, receiver_ends = 0;
  bool sender_gone = false, receiver_gone = false;  ///< killed since
  bool claimed = false;                             ///< the sender was told that it landed
  bool landed = false;
  bool interfered = false;  ///< cancelled or revoked by its engine
  bool giving_up = false;   ///< the receiver's engine wants its pages back
  bool from_free = false, to_free = false;

  [[nodiscard]] bool over() const {
    return (sender_ends > 0 || sender_gone) && from_free && to_free;
  }
};

/// Pages of a job that is cut into single words, of which its descriptors fill several frames.
inline constexpr std::size_t splinter_pages = 64;

/// Cuts the job's pages into pieces: whole pages, odd parts of pages, or single words.
inline void cut_pieces(Job& job, Pool& from, Pool& to, b10::sim::Random& random, bool whole_pages) {
  constexpr std::uint32_t words = page_bytes / sizeof(Word);
  static_assert(words == 32, "Job::named has a bit for each");
  job.named.assign(job.to_pages.size(), 0);
  auto const n = job.from_pages.size();
  bool const splinters = n == splinter_pages;
  bool const whole = !splinters && (whole_pages || random.chance(1, 2));
  auto const piece = [&](std::size_t page_from, std::uint32_t at_from, std::size_t page_to,
                         std::uint32_t at_to, std::uint32_t count) {
    auto const first = static_cast<std::uint32_t>(job.bytes / sizeof(Word));
    auto const bits = static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1) << at_to;
    job.named[page_to] |= bits;
    job.pieces.push_back({from.at(job.from_pages[page_from]) + at_from * sizeof(Word),
                          to.at(job.to_pages[page_to]) + at_to * sizeof(Word), count, first});
    job.bytes += count * sizeof(Word);
  };
  if (splinters) {
    // Every word of the sender's pages to some other place.
    std::vector<std::uint32_t> place(n * words);
    for (std::uint32_t i = 0; i < place.size(); ++i) {
      auto const j = random.below(i + 1);
      place[i] = place[j];
      place[j] = i;
    }
    for (std::uint32_t i = 0; i < place.size(); ++i)
      piece(i / words, i % words, place[i] / words, place[i] % words, 1);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto const count = whole ? words : 1 + random.below(words);
    piece(i, random.below(words - count + 1), i, random.below(words - count + 1), count);
  }
}

}  // namespace campaign
