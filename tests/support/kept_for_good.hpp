#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define B10_TEST_FINDS_LEAKS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define B10_TEST_FINDS_LEAKS
#endif
#ifdef B10_TEST_FINDS_LEAKS
#include <sanitizer/lsan_interface.h>
#endif

namespace support {

/// While one lives, what is allocated may stay for the life of the process: memory that a copy
/// which never ended may still use is given up on purpose.
class KeptForGood {
 public:
  KeptForGood() { enter(); }
  KeptForGood(KeptForGood const&) = delete;
  KeptForGood& operator=(KeptForGood const&) = delete;
#ifdef B10_TEST_FINDS_LEAKS
  ~KeptForGood() { __lsan_enable(); }

 private:
  static void enter() { __lsan_disable(); }
#else
  ~KeptForGood() {}

 private:
  static void enter() {}
#endif
};

}  // namespace support
