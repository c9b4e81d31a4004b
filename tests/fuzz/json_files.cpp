// Files that the example reads and that others have written: request traces and model geometry.
#include "fuzz.hpp"

#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

#include <common/geometry.hpp>
#include <common/trace.hpp>

namespace fuzz {
namespace {

/// A file of these bytes that has no place in any folder.
class File {
 public:
  explicit File(Bytes content) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0);
    require(write(descriptor_, content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
  }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  ~File() { close(descriptor_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void trace(Bytes content) {
  File const file(content);
  try {
    auto const requests = demo::read_trace(file.path(), 100, 10'000);
    require(!requests.empty() && requests.size() <= 100);
    for (auto const& r : requests) {
      require(r.tokens >= 1 && r.tokens <= 10'000);
      require(r.hashes.size() <= r.tokens / demo::hash_tokens);
    }
  } catch (std::runtime_error const& e) {
    require(std::string_view(e.what()).starts_with("--trace is '"));
  }
}

void models(Input in) {
  auto const tp = 1 + in.below(128);
  auto const kv = in.below(2) == 0 ? demo::KvLayout::together : demo::KvLayout::apart;
  File const file(in.rest());
  try {
    auto const model = demo::load_model(file.path(), "m", tp, kv);
    for (auto const& g : model.groups) {
      require(g.layers >= 1 && g.layers <= demo::layers_max);
      require(!g.parts.empty());
      for (auto const bytes : g.parts) require(bytes >= 1 && bytes <= demo::part_bytes_max);
    }
  } catch (std::runtime_error const& e) {
    require(std::string_view(e.what()).starts_with("--"));
  }
}

void run(Bytes bytes) {
  Input in(bytes);
  in.number<std::uint8_t>() % 2 == 0 ? trace(in.rest()) : models(in);
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  for (std::string_view const text :
       {R"({"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": []})",
        R"({"input_length": -5, "hash_ids": [1]})", R"({"input_length": 1e30, "hash_ids": [1.5]})",
        R"({"input_length": 0, "hash_ids": [1]})", R"([])", "{\"input_length\": 9"})
    out.push_back(Seed().number<std::uint8_t>(0).bytes(b10::as_byte_view(text)).take());
  for (std::string_view const text :
       {R"({"models": {"m": {"groups": [{"name": "full", "layers": 32, "kv_heads": 8, "k_dim": 128,
 "v_dim": 128, "window": null, "replicated": false}, {"name": "swa", "layers": 4, "kv_heads": 8,
 "k_dim": 576, "v_dim": 0, "window": 128, "replicated": true}],
 "state": [{"layers": 3, "state_bytes": 4096, "conv_bytes": 0}]}}})",
        R"({"models": {"m": {"groups": [{"name": "g", "layers": -1, "kv_heads": 4294967296,
 "k_dim": 4294967296, "v_dim": -1, "window": -1, "replicated": true}]}}})",
        R"({"models": {"n": {}}})", R"({"models": 1})"})
    out.push_back(Seed()
                      .number<std::uint8_t>(1)
                      .number<std::uint32_t>(0)
                      .number<std::uint32_t>(1)
                      .bytes(b10::as_byte_view(text))
                      .take());
  return out;
}

}  // namespace

Target const json_files{"json_files", run, seeds};

}  // namespace fuzz
