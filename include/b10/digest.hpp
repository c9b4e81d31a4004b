#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace b10 {

/// Which digest a transfer's DATA carries; the value is the wire's.
enum class DigestKind : std::uint8_t {
  none = 0,
  mixed_words = 1,  ///< class Digest
};

/// One word's share of a digest: a bijection of the word for each place, so that a change within
/// one word always changes the digest, and each other change with probability 1 - 2^-64. The mix is
/// the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014), the key its sequence.
[[nodiscard]] constexpr std::uint64_t digest_word(std::uint64_t word, std::uint64_t key) noexcept {
  std::uint64_t x = word ^ key;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
  return x ^ (x >> 31);
}
/// Word i is mixed with (i + 1) times this.
inline constexpr std::uint64_t digest_key_step = 0x9e37'79b9'7f4a'7c15u;

/// The digest of a chunk's bytes: the sum, modulo 2^64, of digest_word() over its little-endian
/// 8-byte words, the last one filled up with zeros. A sum, because a GPU adds the words up in any
/// order. It finds what the network, a bad cable or bad memory change; it is no signature: who can
/// choose bytes can choose equal digests.
class Digest {
  static_assert(std::endian::native == std::endian::little);

 public:
  Digest() noexcept : Digest(0) {}
  /// `first_word`: how many whole words lie before these, in a part of a sum.
  explicit Digest(std::uint64_t first_word) noexcept : key_((first_word + 1) * digest_key_step) {}

  /// Takes the bytes that follow. About 5 GB/s a core, 14 with AVX-512.
  void update(std::byte const* from, std::uint64_t bytes) noexcept {
    while (bytes > 0 && filled_ > 0) {
      take(*from++);
      --bytes;
    }
    std::uint64_t sum = sum_, key = key_;
    for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, from, sizeof word);
      from += sizeof word;
      sum += digest_word(word, key);
      key += digest_key_step;
    }
    sum_ = sum;
    key_ = key;
    while (bytes-- > 0) take(*from++);
  }
  /// Of all bytes so far.
  [[nodiscard]] std::uint64_t value() const noexcept {
    return filled_ > 0 ? sum_ + digest_word(word_, key_) : sum_;
  }

 private:
  void take(std::byte b) noexcept {
    word_ |= std::uint64_t{std::to_integer<std::uint8_t>(b)} << (8 * filled_);
    if (++filled_ < sizeof word_) return;
    sum_ += digest_word(word_, key_);
    key_ += digest_key_step;
    word_ = filled_ = 0;
  }

  std::uint64_t sum_ = 0;
  std::uint64_t key_;
  std::uint64_t word_ = 0;    ///< begun
  std::uint64_t filled_ = 0;  ///< [bytes] of it
};

}  // namespace b10
