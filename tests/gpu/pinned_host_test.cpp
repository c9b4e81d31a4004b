#include <b10/staging/pinned_host.hpp>

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <b10/slicing/chunked.hpp>
#include <b10/slicing/whole.hpp>

#include "laws/staging.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/node_of.hpp"

using namespace b10;

namespace {

template <class Slicing>
using Pinned = staging::PinnedHost<Slicing, copy::Memcpy>;

using Small = Pinned<slicing::Chunked<1024>>;

Small::Options small(std::uint64_t views) {
  return {.buffer_bytes = 1024, .buffers = views, .refill = staging::Refill::inline_};
}

std::string refusal(auto&& make) {
  try {
    make();
  } catch (Error const& e) {
    CHECK(e.reason() == Reason::refused);
    return e.what();
  }
  FAIL("must throw");
  return {};
}

cudaPointerAttributes attributes(void const* address) {
  cudaPointerAttributes found{};
  REQUIRE(cudaPointerGetAttributes(&found, address) == cudaSuccess);
  return found;
}

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// Lets the background thread run, boundedly, until `done`.
bool eventually(auto&& done) {
  for (int i = 0; i < 100'000'000; ++i) {
    if (done()) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("a device that is not there is refused with CUDA's reason and advice", "[gpu][staging]") {
  int count = 0;
  auto status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) status = count == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
  auto options = small(4);
  options.device = count;  // the first that is not there
  auto const why = refusal([&] { Small{options}; });
  CHECK_THAT(
      why,
      Catch::Contains("CUDA device " + std::to_string(count) + " of " + std::to_string(count)) &&
          Catch::Contains(cudaGetErrorName(status)) && Catch::Contains(cudaGetErrorString(status)));
  CHECK_THAT(why, Catch::Contains("set device") || Catch::Contains("staging::Host"));
  if (count > 0) CHECK(cudaGetLastError() == cudaSuccess);  // reported once
}

TEST_CASE("sizes are checked before a GPU is asked for", "[gpu][staging]") {
  auto options = small(4);
  options.buffers = 0;
  CHECK_THROWS_WITH(Small{options}, Catch::Contains("set buffers and buffer_bytes"));
}

TEST_CASE("PinnedHost obeys the staging laws", "[gpu][staging]") {
  if (support::no_gpu()) return;
  laws::staging([] { return Small(small(8)); });
}

TEST_CASE("PinnedHost obeys the staging laws when one buffer holds many slices", "[gpu][staging]") {
  if (support::no_gpu()) return;
  laws::staging([] {
    return Pinned<slicing::Pipelined<1000, 2>>(
        {.buffer_bytes = 16'500, .buffers = 2, .refill = staging::Refill::inline_});
  });
}

TEST_CASE("PinnedHost obeys the staging laws with huge pages on any node", "[gpu][staging]") {
  if (support::no_gpu()) return;
  laws::staging([] {
    return Pinned<slicing::Whole>({.buffer_bytes = (2u << 20) + 1,
                                   .buffers = 4,
                                   .refill = staging::Refill::inline_,
                                   .numa = staging::Numa::anywhere});
  });
}

TEST_CASE("a view is pinned, for every device of the process, from its first byte to its last",
          "[gpu][staging]") {
  if (support::no_gpu()) return;
  Pinned<slicing::Pipelined<>> pool({.buffer_bytes = 8u << 20, .buffers = 1});
  auto view = pool.try_acquire(Use::send);
  REQUIRE(view);
  CHECK(reinterpret_cast<std::uintptr_t>(view->data()) % (2u << 20) == 0);
  for (int device = 0; device < device_count(); ++device) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    for (auto* at : {view->data(), view->data() + view->bytes() - 1}) {
      CHECK(attributes(at).type == cudaMemoryTypeHost);
      CHECK(attributes(at).devicePointer == at);  // kernels use the same address
    }
  }
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  pool.release(std::move(*view));
}

TEST_CASE("bytes survive the way to the GPU and back through two views", "[gpu][staging]") {
  if (support::no_gpu()) return;
  constexpr std::size_t bytes = 4u << 20;
  Pinned<slicing::Pipelined<bytes>> pool({.buffer_bytes = 2 * bytes, .buffers = 1});
  auto there = pool.try_acquire(Use::send);
  auto back = pool.try_acquire(Use::send);
  REQUIRE((there && back));
  for (std::size_t i = 0; i < bytes; ++i) there->data()[i] = static_cast<std::byte>(i * 131 >> 3);
  void* vram = nullptr;
  REQUIRE(cudaMalloc(&vram, bytes) == cudaSuccess);
  CHECK(cudaMemcpy(vram, there->data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(back->data(), vram, bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(std::memcmp(there->data(), back->data(), bytes) == 0);
  CHECK(cudaFree(vram) == cudaSuccess);
  pool.release(std::move(*there));
  pool.release(std::move(*back));
}

TEST_CASE("dropped memory is no longer pinned, abandoned memory still is", "[gpu][staging][C08]") {
  if (support::no_gpu()) return;
  Small pool(small(4));
  auto dropped = pool.try_acquire(Use::send);
  auto abandoned = pool.try_acquire(Use::send);
  REQUIRE((dropped && abandoned));
  auto* const gone = dropped->data();
  auto* const kept = abandoned->data();
  pool.drop(pool.quarantine(std::move(*dropped)));
  pool.abandon(pool.quarantine(std::move(*abandoned)));
  CHECK(attributes(gone).type == cudaMemoryTypeUnregistered);
  CHECK(attributes(kept).type == cudaMemoryTypeHost);
  CHECK(pool.stranded_bytes() == 0);
}

TEST_CASE("what quarantine drops is replaced by pinned memory in the background",
          "[gpu][staging][K6]") {
  if (support::no_gpu()) return;
  Small pool({.buffer_bytes = 1024, .buffers = 16, .device = device_count() - 1});
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 8; ++i) {
      auto view = pool.try_acquire(Use::send);
      if (!view) break;
      pool.drop(pool.quarantine(std::move(*view)));
      laws::adds_up(pool.gauges());
    }
    pool.maintain();
    laws::adds_up(pool.gauges());
  }
  CHECK(eventually([&] {
    pool.maintain();
    laws::adds_up(pool.gauges());
    return pool.gauges().free == 16 * 1024;
  }));
  std::vector<Small::View> views;
  while (auto view = pool.try_acquire(Use::send)) {
    CHECK(attributes(view->data()).type == cudaMemoryTypeHost);
    views.push_back(std::move(*view));
  }
  CHECK(views.size() == 16);
  for (auto& view : views) pool.release(std::move(view));
  CHECK(pool.refill_failures() == 0);
  CHECK(pool.stranded_bytes() == 0);
}

TEST_CASE("a pool stays on its device and leaves a used device current", "[gpu][staging]") {
  if (support::no_gpu()) return;
  auto const last = device_count() - 1;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);  // used from here on
  auto options = small(4);
  options.device = last;
  auto pool = std::make_unique<Small>(options);
  int current = -1;
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
  CHECK(pool->device() == last);
  pool.reset();
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
}

TEST_CASE("without a device in its options a pool takes the current one", "[gpu][staging]") {
  if (support::no_gpu()) return;
  auto const last = device_count() - 1;
  REQUIRE(cudaSetDevice(last) == cudaSuccess);
  CHECK(Small(small(4)).device() == last);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("memory comes from the node of its device where the system lets us choose",
          "[gpu][staging]") {
  if (support::no_gpu()) return;
  auto options = small(4);
  Small near(options);
  options.numa = staging::Numa::anywhere;
  CHECK(Small(options).numa_node() == -1);
  char bus_id[32] = {};
  REQUIRE(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, near.device()) == cudaSuccess);
  WARN("device " << near.device() << " at " << bus_id << ": node " << near.numa_node());
  auto view = near.try_acquire(Use::send);
  REQUIRE(view);
  if (near.numa_node() >= 0) CHECK(node_of(view->data()) == near.numa_node());
  near.release(std::move(*view));
}
