#include <cstdio>

#include <b10/transceiver.hpp>
#ifdef B10_WITH_CUDA
#include <b10/device/copy_spans.hpp>
#endif
#ifdef B10_WITH_UCX
#include <openssl/crypto.h>
#include <ucp/api/ucp.h>
#endif

int main() {
#ifdef B10_WITH_UCX
  std::printf("UCX %s, %s\n", ucp_get_version_string(), OpenSSL_version(OPENSSL_VERSION));
  std::printf("%s, %zu bytes\n", ucs_status_string(UCS_OK), sizeof(b10::HostTransceiver));
#endif
#ifdef B10_WITH_CUDA
  int version = 0;
  auto const status = cudaRuntimeGetVersion(&version);
  auto* const kernels = reinterpret_cast<void*>(&b10::device::Linked::gather);
  std::printf("CUDA %d, %s, kernels at %p\n", version, cudaGetErrorName(status), kernels);
#endif
  std::printf("b10 %d.%d\n", b10::version_major, b10::version_minor);
}
