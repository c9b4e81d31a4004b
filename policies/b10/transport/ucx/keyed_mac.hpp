#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <b10/outcome.hpp>

namespace b10::transport::ucx {

using Digest = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

/// HMAC-SHA256 over the concatenation of `parts`. Callers make the concatenation unambiguous: parts
/// of fixed length, or lengths written in front. Throws Error if the library fails.
[[nodiscard]] inline Digest hmac(std::span<std::byte const> key,
                                 std::initializer_list<std::span<std::byte const>> parts) {
  struct Free {
    void operator()(EVP_MAC* m) const { EVP_MAC_free(m); }
    void operator()(EVP_MAC_CTX* c) const { EVP_MAC_CTX_free(c); }
  };
  char digest[] = "SHA256";
  OSSL_PARAM const params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_END};
  std::unique_ptr<EVP_MAC, Free> const mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  std::unique_ptr<EVP_MAC_CTX, Free> const context(mac ? EVP_MAC_CTX_new(mac.get()) : nullptr);
  auto const* const k = reinterpret_cast<unsigned char const*>(key.data());
  bool ok = context && EVP_MAC_init(context.get(), k, key.size(), params) == 1;
  for (auto const& part : parts) {
    ok = ok && EVP_MAC_update(context.get(), reinterpret_cast<unsigned char const*>(part.data()),
                              part.size()) == 1;
  }
  Digest out{};
  std::size_t written = 0;
  ok = ok && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(out.data()), &written,
                           out.size()) == 1;
  if (!ok || written != out.size()) {
    throw Error(Reason::transport_failed, "HMAC-SHA256 is not available in this OpenSSL");
  }
  return out;
}

/// Takes the same time wherever the difference lies, so that a forger learns nothing from waiting.
[[nodiscard]] inline bool equal_in_constant_time(std::span<std::byte const> a,
                                                 std::span<std::byte const> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// From the operating system's generator. Throws Error if it has no entropy.
[[nodiscard]] inline Nonce random_nonce() {
  Nonce n{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(n.data()), static_cast<int>(n.size())) != 1) {
    throw Error(Reason::transport_failed, "the random generator of OpenSSL failed");
  }
  return n;
}

/// Authenticates control messages: SipHash-2-4, 64 bits, under a key that lives as long as one
/// link. Short, because a forger has one try: a wrong code ends the link. One thread.
class ShortMac {
 public:
  static constexpr std::size_t bytes = 8;

  /// `key`: the first 16 bytes are used.
  explicit ShortMac(Digest const& key) : key_(key) {
    mac_.reset(EVP_MAC_fetch(nullptr, "SIPHASH", nullptr));
    if (mac_) context_.reset(EVP_MAC_CTX_new(mac_.get()));
    std::array<std::byte, 1> const probe{};
    std::uint64_t out = 0;
    if (!context_ || !(*this)(0, probe, out)) {
      throw Error(Reason::transport_failed, "SipHash is not available in this OpenSSL");
    }
  }

  /// Code of `frame` at `sequence`; the length is part of it. False if the library fails.
  [[nodiscard]] bool operator()(std::uint64_t sequence, std::span<std::byte const> frame,
                                std::uint64_t& code) noexcept {
    std::uint64_t const head[2] = {sequence, frame.size()};
    auto* const c = context_.get();
    std::size_t written = 0;
    return EVP_MAC_init(c, reinterpret_cast<unsigned char const*>(key_.data()), 16, params_) == 1 &&
           EVP_MAC_update(c, reinterpret_cast<unsigned char const*>(head), sizeof head) == 1 &&
           EVP_MAC_update(c, reinterpret_cast<unsigned char const*>(frame.data()), frame.size()) ==
               1 &&
           EVP_MAC_final(c, reinterpret_cast<unsigned char*>(&code), &written, sizeof code) == 1 &&
           written == bytes;
  }

 private:
  struct Free {
    void operator()(EVP_MAC* m) const { EVP_MAC_free(m); }
    void operator()(EVP_MAC_CTX* c) const { EVP_MAC_CTX_free(c); }
  };
  Digest key_;
  std::size_t size_ = bytes;
  OSSL_PARAM params_[2] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size_),
                           OSSL_PARAM_END};
  std::unique_ptr<EVP_MAC, Free> mac_;
  std::unique_ptr<EVP_MAC_CTX, Free> context_;

 public:
  ShortMac(ShortMac const&) = delete;  // params_ points into the object
  ShortMac& operator=(ShortMac const&) = delete;
};

}  // namespace b10::transport::ucx
