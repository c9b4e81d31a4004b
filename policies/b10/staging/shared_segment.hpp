#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <b10/outcome.hpp>
#include <b10/staging/offer_words.hpp>

namespace b10::staging {

/// What a process needs to map another one's segment, and to know that it is that one. Text of
/// fixed order on the wire: boot id, pid namespace, pid, descriptor, sizes, secret.
struct SegmentOffer {
  std::string boot{};           ///< of the running system
  std::string pid_namespace{};  ///< process ids mean the same only within one
  std::uint64_t pid = 0;
  std::uint64_t descriptor = 0;
  std::uint64_t bytes = 0;        ///< of the whole segment
  std::uint64_t block_bytes = 0;  ///< from one block to the next
  std::uint64_t blocks = 0;       ///< that exist from the start
  std::string secret{};           ///< 32 hexadecimal digits, which the segment starts with
};

namespace detail {

inline constexpr std::size_t secret_digits = 32;

[[nodiscard]] inline std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}
[[nodiscard]] inline std::string pid_namespace() {
  char text[64] = {};
  auto const n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
}
[[nodiscard]] inline std::string new_secret() {
  std::array<unsigned char, secret_digits / 2> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw Error(Reason::refused, "the system gives no random bytes for a shared staging segment");
  return hex(random.data(), random.size());
}

}  // namespace detail

[[nodiscard]] inline std::string encode(SegmentOffer const& o) {
  std::string text = "memfd";
  add_word(text, o.boot);
  add_word(text, o.pid_namespace);
  for (auto const value : {o.pid, o.descriptor, o.bytes, o.block_bytes, o.blocks})
    add_word(text, value);
  add_word(text, o.secret);
  return text;
}

/// nullopt for anything else than such a text (hostile input).
[[nodiscard]] inline std::optional<SegmentOffer> decode_offer(std::string_view text) {
  OfferWords in(text);
  bool const known = in.word() == "memfd";
  SegmentOffer o;
  o.boot = in.word();
  o.pid_namespace = in.word();
  for (auto* const to : {&o.pid, &o.descriptor, &o.bytes, &o.block_bytes, &o.blocks})
    *to = in.number();
  o.secret = in.word();
  if (!known || !in.good() || o.secret.size() != detail::secret_digits) return std::nullopt;
  return o;
}

/// Where in every segment the blocks begin; the secret lies before them.
inline constexpr std::uint64_t segment_head_bytes = 4096;

/// Most places for blocks of a peer's segment: what is kept for each must not grow as the peer
/// says. Far above what an honest node can have (blocks_max x lives).
inline constexpr std::uint64_t segment_places_max = std::uint64_t{1} << 27;

/// A segment in this process's address space.
class SegmentMapping {
 public:
  SegmentMapping(int descriptor, std::uint64_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor,
                     0)) {
    // A forked child would go on holding the memory.
    if (memory_ != MAP_FAILED) madvise(memory_, bytes_, MADV_DONTFORK);
  }
  SegmentMapping(SegmentMapping&& other) noexcept
      : bytes_(other.bytes_), memory_(std::exchange(other.memory_, MAP_FAILED)) {}
  SegmentMapping& operator=(SegmentMapping&&) = delete;
  ~SegmentMapping() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  /// The mapping stays for the life of the process.
  void keep() noexcept { memory_ = MAP_FAILED; }
  [[nodiscard]] bool mapped() const noexcept { return memory_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(memory_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_;
  void* memory_;
};

/// Maps the segment of an offer. Nothing, and why, unless it is proven to be the one meant: same
/// running system, same pid namespace, a memfd whose size nobody can change any more, and the
/// secret read through it.
[[nodiscard]] inline std::optional<SegmentMapping> map_segment(SegmentOffer const& o,
                                                               std::string& why) {
  auto const refuse = [&](std::string text) {
    why = std::move(text);
    return std::nullopt;
  };
  if (o.boot != detail::boot_id()) return refuse("it is on another host");
  if (o.pid_namespace != detail::pid_namespace()) return refuse("it is in another pid namespace");
  if (o.block_bytes == 0 || o.bytes < segment_head_bytes || o.bytes > std::uint64_t{1} << 46 ||
      o.blocks > (o.bytes - segment_head_bytes) / o.block_bytes ||
      (o.bytes - segment_head_bytes) / o.block_bytes > segment_places_max)
    return refuse("its sizes contradict each other");
  auto const path = "/proc/" + std::to_string(o.pid) + "/fd/" + std::to_string(o.descriptor);
  int const descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return refuse("its staging segment cannot be opened: " + std::string(std::strerror(errno)) +
                  " (both processes must run as one user)");
  struct stat found {};
  int const seals = fcntl(descriptor, F_GET_SEALS);
  bool const fits = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
                    static_cast<std::uint64_t>(found.st_size) == o.bytes && seals >= 0 &&
                    (seals & F_SEAL_SHRINK) != 0;
  std::optional<SegmentMapping> mapping;
  if (fits) mapping.emplace(descriptor, o.bytes);
  close(descriptor);
  if (!fits) return refuse("what it offers as its staging segment is none");
  if (!mapping->mapped())
    return refuse("its staging segment cannot be mapped: " + std::string(std::strerror(errno)));
  if (std::memcmp(mapping->data(), o.secret.data(), detail::secret_digits) != 0)
    return refuse("what it offers as its staging segment is another one");
  return mapping;
}

}  // namespace b10::staging
