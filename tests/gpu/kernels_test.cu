#include <b10/device/copy_spans.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace b10::device;

void require(cudaError_t error) {
  INFO(cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

/// Memory of one kind that frees itself.
class Memory {
 public:
  enum class Kind { device, pinned };
  Memory(Kind kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
    void* p = nullptr;
    require(kind == Kind::device ? cudaMalloc(&p, bytes) : cudaMallocHost(&p, bytes));
    data_ = static_cast<std::byte*>(p);
  }
  ~Memory() { static_cast<void>(kind_ == Kind::device ? cudaFree(data_) : cudaFreeHost(data_)); }
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Kind kind_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// [bytes] no word of which looks like another.
std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    std::memcpy(&out[i], &x, std::min<std::size_t>(8, bytes - i));
  }
  return out;
}

void check_equal(std::byte const* is, std::vector<std::byte> const& should, char const* what) {
  if (std::memcmp(is, should.data(), should.size()) == 0) return;
  auto const at = static_cast<std::size_t>(std::mismatch(should.begin(), should.end(), is).first -
                                           should.begin());
  FAIL(what << " is wrong first at " << at << " of " << should.size() << ": "
            << static_cast<int>(is[at]) << ", not " << static_cast<int>(should[at]));
}

struct Span {
  std::size_t at;  ///< in the pool
  std::size_t bytes;
};

std::size_t total(std::vector<Span> const& spans) {
  std::size_t n = 0;
  for (auto const& s : spans) n += s.bytes;
  return n;
}

/// How a copy is launched: as users do, or in a shape that a user's copy might have had.
enum class Form { inline_form, linked, by_value, by_pointer, one_block, many_blocks };
char const* name_of(Form form) {
  static constexpr char const* names[] = {"Inline",     "Linked",    "by value",
                                          "by pointer", "one block", "many blocks"};
  return names[static_cast<int>(form)];
}

template <Direction direction>
cudaError_t launch(Form form, Layout const& layout, std::byte* contiguous, Reach reach,
                   cudaStream_t stream) {
  Launch const usual = launch_for(sm90, layout, reach);
  constexpr bool gather = direction == Direction::gather;
  switch (form) {
    case Form::inline_form:
      return gather ? Inline::gather(layout, contiguous, reach, stream)
                    : Inline::scatter(contiguous, layout, reach, stream);
    case Form::linked:
      return gather ? Linked::gather(layout, contiguous, reach, stream)
                    : Linked::scatter(contiguous, layout, reach, stream);
    case Form::by_value:
      return launch_copy<direction>(layout, contiguous, usual, passing_for(layout), stream);
    case Form::by_pointer:
      return launch_copy<direction>(layout, contiguous, usual, Passing::by_pointer, stream);
    case Form::one_block:
      return launch_copy<direction>(layout, contiguous, {1, 64}, Passing::by_pointer, stream);
    case Form::many_blocks:
      return launch_copy<direction>(layout, contiguous, {1u << 30, 64}, Passing::by_pointer,
                                    stream);
  }
  return cudaErrorInvalidValue;
}

/// A pool in VRAM, a contiguous buffer of the wanted reach, a table; and what the host holds of it.
struct Rig {
  static constexpr std::size_t margin = 512;  ///< of canaries on both sides of the contiguous bytes
  static constexpr std::byte canary{0xa5};

  Rig(std::size_t pool_bytes, std::size_t contiguous_bytes, std::size_t spans, Reach to)
      : reach(to),
        pool(Memory::Kind::device, pool_bytes),
        contiguous(to == Reach::pinned ? Memory::Kind::pinned : Memory::Kind::device,
                   contiguous_bytes + 2 * margin),
        table(Memory::Kind::pinned, SpanTable::bytes_max(spans + 1)) {
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Rig() { static_cast<void>(cudaStreamDestroy(stream)); }
  Rig(Rig const&) = delete;
  Rig& operator=(Rig const&) = delete;

  [[nodiscard]] Layout layout(std::vector<Span> const& spans) const {
    SpanTable t(table.data(), table.bytes());
    for (auto const& s : spans) t.add(pool.data() + s.at, s.bytes);
    return t.finish();
  }
  void upload(Memory const& to, std::vector<std::byte> const& bytes) const {
    require(cudaMemcpyAsync(to.data(), bytes.data(), bytes.size(), cudaMemcpyDefault, stream));
    require(cudaStreamSynchronize(stream));
  }
  void check(Memory const& memory, std::vector<std::byte> const& should, char const* what) const {
    std::vector<std::byte> is(should.size());
    require(cudaMemcpyAsync(is.data(), memory.data(), is.size(), cudaMemcpyDefault, stream));
    require(cudaStreamSynchronize(stream));
    check_equal(is.data(), should, what);
  }

  Reach reach;
  Memory pool;
  Memory contiguous;
  Memory table;
  cudaStream_t stream{};
};

/// Gathers the spans to, and scatters them from, `offset` in the contiguous buffer. All of the pool
/// and all of the buffer is as it should be afterwards.
void check_copy(Rig const& rig, std::vector<Span> const& spans, std::size_t offset, Form form) {
  INFO(name_of(form) << ", " << (rig.reach == Reach::pinned ? "pinned" : "scratch") << ", "
                     << spans.size() << " spans, " << total(spans) << " bytes, offset " << offset);
  Layout const layout = rig.layout(spans);
  REQUIRE(layout.bytes == total(spans));
  REQUIRE(Rig::margin + offset + layout.bytes <= rig.contiguous.bytes());
  std::size_t const start = Rig::margin + offset;
  std::byte* const contiguous = rig.contiguous.data() + start;

  auto const content = noise(rig.pool.bytes(), 1 + offset);
  std::vector<std::byte> should(rig.contiguous.bytes(), Rig::canary);
  rig.upload(rig.pool, content);
  rig.upload(rig.contiguous, should);
  require(launch<Direction::gather>(form, layout, contiguous, rig.reach, rig.stream));
  require(cudaStreamSynchronize(rig.stream));
  std::size_t at = start;
  for (auto const& s : spans) {
    std::memcpy(&should[at], &content[s.at], s.bytes);
    at += s.bytes;
  }
  rig.check(rig.contiguous, should, "the gathered side");
  rig.check(rig.pool, content, "the pool, which a gather only reads,");

  auto const sent = noise(rig.contiguous.bytes(), 1000 + offset);
  std::vector<std::byte> landed(rig.pool.bytes(), Rig::canary);
  rig.upload(rig.contiguous, sent);
  rig.upload(rig.pool, landed);
  require(launch<Direction::scatter>(form, layout, contiguous, rig.reach, rig.stream));
  require(cudaStreamSynchronize(rig.stream));
  at = start;
  for (auto const& s : spans) {
    std::memcpy(&landed[s.at], &sent[at], s.bytes);
    at += s.bytes;
  }
  rig.check(rig.pool, landed, "the pool after the scatter");
  rig.check(rig.contiguous, sent, "the contiguous side, which a scatter only reads,");
}

constexpr Form every_form[] = {Form::inline_form, Form::linked,    Form::by_value,
                               Form::by_pointer,  Form::one_block, Form::many_blocks};
constexpr Form user_forms[] = {Form::inline_form, Form::linked};

/// `count` blocks of a paged pool in random order; no two touch, so that they stay pieces.
std::vector<Span> blocks(std::size_t count, std::size_t bytes, std::uint32_t seed) {
  std::vector<Span> spans(count);
  for (std::size_t i = 0; i < count; ++i) spans[i] = {i * 2 * bytes, bytes};
  std::shuffle(spans.begin(), spans.end(), std::mt19937(seed));
  return spans;
}

/// Spans of the given sizes with random gaps below `gap_max`, in random order.
std::vector<Span> scattered(std::vector<std::size_t> const& sizes, std::size_t gap_max,
                            std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Span> spans;
  std::size_t at = 0;
  for (auto const bytes : sizes) {
    at += random() % gap_max;
    spans.push_back({at, bytes});
    at += bytes;
  }
  std::shuffle(spans.begin(), spans.end(), random);
  return spans;
}

std::size_t pool_for(std::vector<Span> const& spans) {
  std::size_t end = 0;
  for (auto const& s : spans) end = std::max(end, s.at + s.bytes);
  return end + 256;
}

void check_spans(std::vector<Span> const& spans, std::size_t offset) {
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(pool_for(spans), total(spans) + offset, spans.size(), reach);
    for (auto const form : every_form) check_copy(rig, spans, offset, form);
  }
}

/// A span of each length in 1..67 at each of the 16 x 16 alignments of pool and contiguous side;
/// spans in between bring the contiguous side to its alignment.
std::vector<Span> every_alignment() {
  std::vector<Span> spans;
  std::size_t at = 0;        // in the pool
  std::size_t position = 0;  // on the contiguous side, which starts at a multiple of 16
  auto const add = [&](std::size_t alignment, std::size_t bytes) {
    at += 16 + (alignment - at) % 16;
    spans.push_back({at, bytes});
    at += bytes;
    position += bytes;
  };
  for (std::size_t bytes = 1; bytes <= 67; ++bytes) {
    for (std::size_t pair = 0; pair < 256; ++pair) {
      if (std::size_t const filler = (pair % 16 - position) % 16) add(at, filler);
      add(pair / 16, bytes);
    }
  }
  return spans;
}

}  // namespace

TEST_CASE("Every alignment and length from 1 to 67 is copied exactly among others") {
  if (support::no_gpu()) return;
  auto const spans = every_alignment();
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(pool_for(spans), total(spans), spans.size(), reach);
    for (auto const form : every_form) check_copy(rig, spans, 0, form);
    // The same in tables that travel with the launch.
    for (std::size_t first = 0; first < spans.size(); first += 2000) {
      auto const begin = spans.begin() + static_cast<std::ptrdiff_t>(first);
      std::size_t const count = std::min<std::size_t>(200, spans.size() - first);
      check_copy(rig, {begin, begin + static_cast<std::ptrdiff_t>(count)}, 0, Form::by_value);
    }
  }
}

TEST_CASE("Every alignment and length is copied exactly by a launch of its own") {
  if (support::no_gpu()) return;
  constexpr std::size_t cell = 512;  // of the pool and of the contiguous side, for one length
  std::vector<std::size_t> lengths;
  for (std::size_t n = 1; n <= 67; ++n) lengths.push_back(n);
  for (std::size_t const n : {127u, 255u, 256u, 300u}) lengths.push_back(n);
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(lengths.size() * cell, lengths.size() * cell, 1, reach);
    for (std::size_t pair = 0; pair < 256; ++pair) {
      std::size_t const scattered_at = 32 + pair / 16;
      std::size_t const packed_at = 32 + pair % 16;
      auto const content = noise(rig.pool.bytes(), pair + 1);
      std::vector<std::byte> should(rig.contiguous.bytes(), Rig::canary);
      rig.upload(rig.pool, content);
      rig.upload(rig.contiguous, should);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        auto const layout = rig.layout({{i * cell + scattered_at, lengths[i]}});
        auto const at = i * cell + packed_at;
        require(Inline::gather(layout, rig.contiguous.data() + at, reach, rig.stream));
        std::memcpy(&should[at], &content[i * cell + scattered_at], lengths[i]);
      }
      INFO("alignments " << pair / 16 << " and " << pair % 16);
      rig.check(rig.contiguous, should, "the gathered side");

      std::vector<std::byte> landed(rig.pool.bytes(), Rig::canary);
      rig.upload(rig.pool, landed);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        auto const layout = rig.layout({{i * cell + scattered_at, lengths[i]}});
        auto const at = i * cell + packed_at;
        require(Inline::scatter(rig.contiguous.data() + at, layout, reach, rig.stream));
        std::memcpy(&landed[i * cell + scattered_at], &should[at], lengths[i]);
      }
      rig.check(rig.pool, landed, "the pool after the scatter");
    }
  }
}

TEST_CASE("Long spans are copied exactly at every alignment") {
  if (support::no_gpu()) return;
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(200'000, 200'000, 8, reach);
    for (std::size_t scattered_at = 0; scattered_at < 16; ++scattered_at)
      for (std::size_t packed_at = 0; packed_at < 16; ++packed_at)
        check_copy(rig, {{scattered_at, 65'533}, {100'000 + scattered_at, 33'001}}, packed_at,
                   user_forms[packed_at % 2]);
  }
}

TEST_CASE("Blocks of one size are copied exactly, with the first and the last cut or whole") {
  if (support::no_gpu()) return;
  struct Cut {
    std::size_t head, tail;
  };
  for (std::size_t const bytes : {256u, 1024u, 2048u, 4096u, 36'864u, 65'536u, 131'072u}) {
    for (auto const cut : {Cut{0, 0}, Cut{64, 0}, Cut{0, 240}, Cut{7, 13}, Cut{bytes - 1, 1}}) {
      INFO(bytes << " bytes, less " << cut.head << " and " << cut.tail);
      auto spans = blocks(std::max<std::size_t>(3, (1 << 20) / bytes), bytes, 5);
      spans.front().at += cut.head;
      spans.front().bytes -= cut.head;
      spans.back().bytes -= cut.tail;
      check_spans(spans, 0);
      check_spans(spans, 17);
    }
  }
}

TEST_CASE("Blocks of odd sizes are copied exactly") {
  if (support::no_gpu()) return;
  for (std::size_t const bytes : {1u, 2u, 3u, 5u, 17u, 31u, 100u, 333u, 1000u, 4095u, 10'007u})
    check_spans(blocks(700, bytes, 9), 3);
}

TEST_CASE("Neighbours in memory are copied exactly") {
  if (support::no_gpu()) return;
  std::vector<Span> spans;
  for (std::size_t i = 0; i < 4000; ++i) spans.push_back({64 + i * 256, 256});  // one long run
  check_spans(spans, 0);
  std::vector<Span> runs;  // runs of 1 to 8
  for (std::size_t i = 0; i < 4000; ++i)
    if (i % 9 != 0 && (i / 9 % 8) + 1 >= i % 9) runs.push_back({i * 256, 256});
  check_spans(runs, 0);
  runs[runs.size() / 2].bytes = 255;
  check_spans(runs, 0);
}

TEST_CASE("A single span of any size is copied exactly") {
  if (support::no_gpu()) return;
  for (std::size_t const bytes : {1u, 15u, 16u, 2047u, 2048u, 2049u, 100'000u, 5'000'000u})
    check_spans({{130, bytes}}, 2);
}

TEST_CASE("200,000 spans of 1 to 8 bytes are copied exactly") {
  if (support::no_gpu()) return;
  std::mt19937 random(3);
  std::vector<std::size_t> sizes(200'000);
  for (auto& s : sizes) s = 1 + random() % 8;
  check_spans(scattered(sizes, 9, 4), 1);
}

TEST_CASE("Spans from 1 byte to 64 MiB in one copy are copied exactly") {
  if (support::no_gpu()) return;
  std::mt19937 random(11);
  std::vector<std::size_t> sizes;
  for (std::size_t n = 1; n <= 64u << 20; n *= 2) {
    sizes.push_back(n);
    sizes.push_back(n + random() % n);
    if (n < 100'000) sizes.insert(sizes.end(), 40, n + random() % n);
  }
  auto const spans = scattered(sizes, 1000, 12);
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(pool_for(spans), total(spans) + 16, spans.size(), reach);
    for (auto const form : user_forms) check_copy(rig, spans, 5, form);
  }
}

TEST_CASE("Random lists of spans are copied exactly") {
  if (support::no_gpu()) return;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    std::mt19937 random(seed);
    std::size_t const unit = std::size_t{1} << random() % 5;  // alignment of all sizes
    std::size_t const size_max = std::size_t{1} << (4 + random() % 14);
    std::vector<std::size_t> sizes(1 + random() % 3000);
    std::size_t sum = 0;
    for (auto& s : sizes) {
      s = (1 + random() % size_max + unit - 1) / unit * unit;
      sum += s;
      if (sum > 8u << 20) s = unit;
    }
    auto const spans = scattered(sizes, random() % 2 ? 1 : 300, seed);
    INFO("seed " << seed);
    Rig const rig(pool_for(spans), total(spans) + 256, spans.size(),
                  random() % 2 ? Reach::scratch : Reach::pinned);
    check_copy(rig, spans, random() % 256 / unit * unit, every_form[seed % 6]);
  }
}

TEST_CASE("More than 4 GiB in one copy are copied exactly") {
  if (support::no_gpu()) return;
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &all_bytes));
  if (free_bytes < std::size_t{12} << 30) {
    std::cout << "left out: 12 GiB of free VRAM wanted, " << (free_bytes >> 20) << " MiB there\n";
    return;
  }
  // One span larger than 32 bits can say, and enough others to cross 4 GiB on both sides of it.
  std::vector<Span> spans = blocks(1000, 300'000, 6);
  spans.insert(spans.begin() + 500, {700'000'000, (std::size_t{1} << 32) + 4099});
  for (auto const reach : {Reach::scratch, Reach::pinned}) {
    Rig const rig(pool_for(spans), total(spans), spans.size(), reach);
    check_copy(rig, spans, 0, Form::inline_form);
  }
}

TEST_CASE("Copies on two streams at once do not disturb each other") {
  if (support::no_gpu()) return;
  auto const spans = blocks(2000, 4096, 8);
  auto const content = noise(pool_for(spans), 3);
  std::vector<std::unique_ptr<Rig>> rigs;
  for (auto const reach : {Reach::scratch, Reach::pinned, Reach::scratch})
    rigs.push_back(std::make_unique<Rig>(pool_for(spans), total(spans), spans.size(), reach));
  std::vector<Layout> layouts;
  for (auto const& rig : rigs) {
    rig->upload(rig->pool, content);
    layouts.push_back(rig->layout(spans));
  }
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < rigs.size(); ++i) {
      auto const& rig = *rigs[i];
      require(Inline::gather(layouts[i], rig.contiguous.data(), rig.reach, rig.stream));
      require(cudaMemsetAsync(rig.pool.data(), round, rig.pool.bytes(), rig.stream));
      require(Inline::scatter(rig.contiguous.data(), layouts[i], rig.reach, rig.stream));
    }
  }
  std::vector<std::byte> landed(content.size(), std::byte{19});
  for (auto const& s : spans) std::memcpy(&landed[s.at], &content[s.at], s.bytes);
  for (auto const& rig : rigs) rig->check(rig->pool, landed, "the pool of a stream");
}

TEST_CASE("An empty copy launches nothing, not even on a stream that does not exist") {
  if (support::no_gpu()) return;
  alignas(16) std::byte memory[16]{};
  SpanTable table(memory, sizeof memory);
  table.add(memory, 0);
  Layout const layout = table.finish();
  CHECK(layout.bytes == 0);
  CHECK(Inline::gather(layout, nullptr, Reach::scratch, nullptr) == cudaSuccess);
  CHECK(Linked::scatter(nullptr, layout, Reach::pinned, nullptr) == cudaSuccess);
}

TEST_CASE("A launch that CUDA refuses is reported and leaves no last error behind") {
  if (support::no_gpu()) return;
  alignas(16) std::byte memory[16]{};
  SpanTable table(memory, sizeof memory);
  table.add(memory, 16);
  CHECK(launch_copy<Direction::gather>(table.finish(), memory, {1, 4096}, Passing::by_value,
                                       nullptr) != cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

// What follows needs no GPU: the table is written by the host.

namespace {

struct Table {
  explicit Table(std::vector<Span> const& spans)
      : memory((SpanTable::bytes_max(spans.size()) + 15) / 16 + 1) {
    SpanTable t(memory.front().bytes, memory.size() * 16 - 16);
    for (auto const& s : spans) t.add(reinterpret_cast<std::byte*>(s.at), s.bytes);
    layout = t.finish();
    rows = static_cast<std::uint64_t const*>(layout.rows);
  }
  struct alignas(16) Cell {
    std::byte bytes[16];
  };
  std::vector<Cell> memory;
  Layout layout;
  std::uint64_t const* rows = nullptr;
};

}  // namespace

TEST_CASE("A table of equal pieces takes 8 bytes a piece, even if the first and last are cut") {
  Table const whole({{1000, 64}, {5000, 64}, {3000, 64}});
  CHECK(whole.layout.piece_bytes == 64);
  CHECK(whole.layout.skip == 0);
  CHECK(whole.layout.table_bytes() == 24);
  CHECK(whole.rows[1] == 5000 - 64);
  Table const cut({{1010, 54}, {5000, 64}, {3000, 64}, {7000, 3}});
  CHECK(cut.layout.piece_bytes == 64);
  CHECK(cut.layout.skip == 10);
  CHECK(cut.layout.bytes == 54 + 64 + 64 + 3);
  Table const two({{1010, 54}, {5000, 64}});
  CHECK(two.layout.piece_bytes == 64);
  CHECK(two.layout.skip == 10);
  Table const tail({{1000, 64}, {5000, 1}});
  CHECK(tail.layout.piece_bytes == 64);
  CHECK(tail.layout.skip == 0);
}

TEST_CASE("A table turns to 16 bytes a piece at the first size that does not fit") {
  for (auto const& spans : {std::vector<Span>{{1000, 64}, {2000, 32}, {3000, 64}},
                            std::vector<Span>{{1000, 65}, {2000, 64}, {3000, 64}},
                            std::vector<Span>{{1000, 64}, {2000, 64}, {3000, 65}}}) {
    Table const mixed(spans);
    CHECK(mixed.layout.piece_bytes == 0);
    REQUIRE(mixed.layout.pieces == 3);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(mixed.rows[2 * i] == spans[i].at - end);
      CHECK(mixed.rows[2 * i + 1] == (end += spans[i].bytes));
    }
  }
}

TEST_CASE("A table joins neighbours where that makes it smaller") {
  Table const run({{1000, 64}, {1064, 64}, {1128, 64}, {1192, 8}});
  CHECK(run.layout.pieces == 1);
  CHECK(run.layout.piece_bytes == 200);
  Table const runs({{1000, 64}, {1064, 64}, {1128, 64}, {5000, 64}, {5064, 64}});
  CHECK(runs.layout.pieces == 2);
  CHECK(runs.layout.piece_bytes == 0);
  CHECK(runs.rows[1] == 192);
  CHECK(runs.rows[2] == 5000 - 192);
  CHECK(runs.rows[3] == 320);
  Table const few({{1000, 64}, {1064, 64}, {3000, 64}, {5000, 64}});
  CHECK(few.layout.pieces == 4);
  CHECK(few.layout.piece_bytes == 64);
  Table const mixed({{1000, 64}, {3000, 16}, {5000, 64}, {5064, 1}, {5065, 9}});
  CHECK(mixed.layout.pieces == 3);
  CHECK(mixed.rows[5] == 154);
}
