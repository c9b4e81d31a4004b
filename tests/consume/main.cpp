#include <cstdio>

#include <b10/transceiver.hpp>
#ifdef B10_WITH_UCX
#include <openssl/crypto.h>
#include <ucp/api/ucp.h>
#endif

int main() {
#ifdef B10_WITH_UCX
  std::printf("UCX %s, %s\n", ucp_get_version_string(), OpenSSL_version(OPENSSL_VERSION));
  std::printf("%s, %zu bytes\n", ucs_status_string(UCS_OK), sizeof(b10::HostTransceiver));
#endif
  std::printf("b10 %d.%d\n", b10::version_major, b10::version_minor);
}
