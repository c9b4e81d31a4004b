// Gather and scatter of scattered spans by every method, beside one cudaMemcpy of the same bytes.
//   kernel_bench [--slice MiB] [--interference] [--sweep] [--all]
#include <cstdlib>
#include <cstring>
#include <string>

#include "interference.cuh"
#include "methods.cuh"

namespace b10::bench {
namespace {

constexpr int repeats = 5;
constexpr std::size_t span_sizes[] = {256,    2048,   4096,    8192,   16'384,
                                      36'864, 65'536, 131'072, 1 << 20};

std::size_t bytes_for(std::size_t span_bytes) {
  return span_bytes == 256 ? std::size_t{128} << 20 : Rig::bytes_max;
}

struct Method {
  char const* name;
  std::size_t count;      ///< of spans, from the first
  std::byte* contiguous;  ///< where what it copies is verified
  std::function<void()> copy;
  std::function<void()> baseline;  ///< of as many bytes
};

/// Verifies the method, then times it and its baseline in turn.
void row(Rig& rig, Spans const& spans, Direction d, Streams const& streams, Method const& m) {
  static Timer timer;
  prepare(rig, spans, d, m.contiguous);
  static_cast<void>(timer.time(streams, m.copy));
  require(cudaDeviceSynchronize(), m.name);
  verify(rig, spans, m.count, d, m.contiguous, m.name);
  static_cast<void>(timer.time(streams, m.baseline));
  std::vector<double> events, host, base, base_host, ratio;
  for (int r = 0; r < repeats; ++r) {
    auto const b = timer.time(streams, m.baseline);
    auto const t = timer.time(streams, m.copy);
    events.push_back(t.events);
    host.push_back(t.host);
    base.push_back(b.events);
    base_host.push_back(b.host);
    ratio.push_back(b.events / t.events);
  }
  double const gigabytes = static_cast<double>(m.count * spans.span_bytes) / 1e9;
  auto const r = spread(ratio);
  std::printf("| %zu | %s | %s | %.1f | %.1f | %.1f | %.3f (%.3f to %.3f) | %.3f |\n",
              spans.span_bytes, d == Direction::gather ? "D2H" : "H2D", m.name,
              gigabytes / spread(events).median, gigabytes / spread(host).median,
              gigabytes / spread(base).median, r.median, r.min, r.max,
              spread(base_host).median / spread(host).median);
  std::fflush(stdout);
}

void rows(Rig& rig, CubBatched& cub, Spans const& spans, device::Layout const& layout,
          std::size_t slice_bytes, Streams const& streams) {
  using device::Reach;
  cub.load(spans);
  std::size_t const some = std::min<std::size_t>(spans.count, 8192);
  CopyEngineBatch batch(rig, spans, some);
  std::size_t const bytes = spans.bytes();
  auto* const k = streams.kernel;
  for (auto const d : {Direction::gather, Direction::scatter}) {
    auto const plain = [&, d] { plain_memcpy(rig, bytes, d, k); };
    auto const plain_some = [&, d] { plain_memcpy(rig, some * spans.span_bytes, d, k); };
    auto const inside = [&] { plain_device_memcpy(rig, bytes, k); };
    std::size_t const all = spans.count;
    Method const methods[] = {
        {"staged", all, rig.pinned, [&] { staged(rig, spans, slice_bytes, d, streams); }, plain},
        {"kernel, direct", all, rig.pinned,
         [&] { kernel(layout, rig.pinned, Reach::pinned, d, k); }, plain},
        {"cub Batched, direct", all, rig.pinned, [&] { cub.copy(Reach::pinned, d, k); }, plain},
        {"kernel, VRAM only", all, rig.flat,
         [&] { kernel(layout, rig.flat, Reach::scratch, d, k); }, inside},
        {"cub Batched, VRAM only", all, rig.flat, [&] { cub.copy(Reach::scratch, d, k); }, inside},
        {"cudaMemcpyBatchAsync", some, rig.pinned, [&] { batch.copy(d, k); }, plain_some},
        {"cudaMemcpyAsync each", some, rig.pinned, [&] { batch.copy_each(d, k); }, plain_some},
    };
    for (auto const& m : methods) row(rig, spans, d, streams, m);
  }
}

void compare(Rig& rig, std::size_t slice_bytes) {
  Streams const streams(0);
  CubBatched cub(rig);
  std::printf(
      "\n## Spans of one size, scattered over %zu MiB\n\n"
      "Staged in slices of %zu MiB, %zu of them in the ring; its tables are written while it "
      "runs, all others beforehand. The last two rows of each size copy at most 8192 spans. "
      "Baseline: one cudaMemcpyAsync of the same bytes, within VRAM for \"VRAM only\".\n\n"
      "| span, B | way | method | GB/s, events | GB/s, host clock | baseline GB/s | ratio by "
      "events | by host clock |\n|---|---|---|---|---|---|---|---|\n",
      Rig::pool_bytes >> 20, slice_bytes >> 20, Rig::ring);
  std::string notes;
  for (std::size_t const span_bytes : span_sizes) {
    Spans const spans(rig, span_bytes, bytes_for(span_bytes));
    FullTable const table(rig, spans);
    char line[80];
    std::snprintf(line, sizeof line, "| %zu | %zu | %.2f | %zu |\n", span_bytes, spans.count,
                  table.ns_per_span, table.layout.table_bytes());
    notes += line;
    rows(rig, cub, spans, table.layout, slice_bytes, streams);
  }
  std::printf(
      "\n## Writing the table\n\n| span, B | spans | ns a span | bytes |\n|---|---|---|---|\n%s",
      notes.c_str());
}

/// GB/s, by events, of one shape of launch.
template <Direction direction>
double speed(device::Layout const& layout, std::byte* contiguous, device::Launch launch,
             device::Passing passing, Streams const& streams) {
  static Timer timer;
  std::vector<double> seconds;
  for (int r = 0; r < 4; ++r) {
    auto const t = timer.time(streams, [&] {
      require(device::launch_copy<direction>(layout, contiguous, launch, passing, streams.kernel),
              "launch");
    });
    if (r > 0) seconds.push_back(t.events);
  }
  return static_cast<double>(layout.bytes) / 1e9 / spread(seconds).median;
}

void sweep_row(device::Layout const& layout, std::size_t span_bytes, std::byte* contiguous,
               device::Launch launch, device::Passing passing, Streams const& streams) {
  std::printf("| %zu | %.1f | %s | %u | %d | %.1f | %.1f |\n", span_bytes,
              static_cast<double>(layout.bytes) / (1 << 20),
              passing == device::Passing::by_value ? "by value" : "by pointer", launch.blocks,
              launch.threads,
              speed<Direction::gather>(layout, contiguous, launch, passing, streams),
              speed<Direction::scatter>(layout, contiguous, launch, passing, streams));
  std::fflush(stdout);
}

/// What tuning.cuh is chosen from.
void sweep(Rig& rig) {
  Streams const streams(0);
  char const* const head =
      "| span, B | MiB | table | blocks | threads | gather, GB/s | scatter, GB/s |\n"
      "|---|---|---|---|---|---|---|\n";
  std::printf("\n## Shapes of direct launches\n\n%s", head);
  for (std::size_t const span_bytes : {256u, 2048u, 16'384u, 65'536u}) {
    Spans const spans(rig, span_bytes, bytes_for(span_bytes) / 2);
    FullTable const table(rig, spans);
    for (int const threads : {256, 512, 1024})
      for (std::uint32_t const blocks : {2u, 4u, 6u, 8u, 12u, 16u, 32u, 132u})
        sweep_row(table.layout, span_bytes, rig.pinned, {blocks, threads},
                  device::passing_for(table.layout), streams);
  }
  std::printf("\n## Shapes of launches within VRAM\n\n%s", head);
  for (std::size_t const span_bytes : {256u, 2048u, 16'384u, 65'536u}) {
    for (std::size_t const mib : {4u, 32u, 128u}) {
      Spans const spans(rig, span_bytes, mib << 20);
      FullTable const table(rig, spans);
      for (int const threads : {128, 256, 512}) {
        for (std::uint32_t const windows_of_warp : {1u, 2u, 4u}) {
          auto const block_bytes =
              static_cast<std::size_t>(threads) / 32 * windows_of_warp * device::window_bytes;
          auto const blocks = static_cast<std::uint32_t>(spans.bytes() / block_bytes);
          sweep_row(table.layout, span_bytes, rig.flat, {blocks, threads},
                    device::Passing::by_pointer, streams);
        }
      }
      if (device::passing_for(table.layout) == device::Passing::by_value)
        sweep_row(table.layout, span_bytes, rig.flat,
                  device::launch_for(device::sm90, table.layout, device::Reach::scratch),
                  device::Passing::by_value, streams);
    }
  }
}

void describe() {
  cudaDeviceProp p{};
  int driver = 0, runtime = 0;
  require(cudaGetDeviceProperties(&p, 0), "device 0");
  require(cudaDriverGetVersion(&driver), "driver");
  require(cudaRuntimeGetVersion(&runtime), "runtime");
  std::printf("%s, sm_%d%d, %d SMs, driver for CUDA %d, runtime %d, %d copy engines\n", p.name,
              p.major, p.minor, p.multiProcessorCount, driver, runtime, p.asyncEngineCount);
}

}  // namespace
}  // namespace b10::bench

int main(int argc, char** argv) {
  using namespace b10::bench;
  int devices = 0;
  if (cudaError_t const e = cudaGetDeviceCount(&devices); e != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(e));
    return 0;
  }
  std::size_t slice_bytes = 4 << 20;
  bool first = true, second = false, third = false;
  for (int i = 1; i < argc; ++i) {
    std::string const a = argv[i];
    if (a == "--slice" && i + 1 < argc) {
      slice_bytes = std::strtoul(argv[++i], nullptr, 10) << 20;
    } else if (a == "--interference") {
      second = true, first = false;
    } else if (a == "--sweep") {
      third = true, first = false;
    } else if (a == "--all") {
      first = second = third = true;
    } else {
      std::fprintf(stderr, "kernel_bench [--slice MiB] [--interference] [--sweep] [--all]\n");
      return 2;
    }
  }
  if (slice_bytes == 0 || slice_bytes > Rig::slice_bytes_max) {
    std::fprintf(stderr, "--slice takes 1 to %zu MiB\n", Rig::slice_bytes_max >> 20);
    return 2;
  }
  describe();
  Rig rig;
  fill<<<2048, 256>>>(reinterpret_cast<std::uint64_t*>(rig.pool), Rig::pool_bytes / 8, 0);
  fill<<<2048, 256>>>(reinterpret_cast<std::uint64_t*>(rig.flat), Rig::bytes_max / 8, 1);
  fill<<<2048, 256>>>(reinterpret_cast<std::uint64_t*>(rig.pinned), Rig::bytes_max / 8, sent);
  require(cudaDeviceSynchronize(), "fill");
  if (first) compare(rig, slice_bytes);
  if (second) interference(rig);
  if (third) sweep(rig);
  return 0;
}
