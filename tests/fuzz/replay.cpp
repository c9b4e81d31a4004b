// Runs a target's corpus without a fuzzer, so that every compiler and sanitizer build does it:
//   b10_fuzz_replay TARGET FOLDER            each input, each seed, and small changes of both
//   b10_fuzz_replay TARGET FOLDER --write    stores the seeds there
// An input that breaks a promise is left in the working folder.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "fuzz.hpp"

namespace {

constexpr unsigned changes_max = 20'000;

fuzz::Target const* const targets[] = {
    &fuzz::frames,         &fuzz::descriptors,      &fuzz::hello,
    &fuzz::staging_offers, &fuzz::session_messages,
#ifdef B10_FUZZ_BOOTSTRAP
    &fuzz::bootstrap,
#endif
#ifdef B10_FUZZ_JSON
    &fuzz::json_files,
#endif
};

fuzz::Buffer read(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  std::string const text(std::istreambuf_iterator<char>(in), {});
  return fuzz::copy_of(b10::as_byte_view(text));
}

void write(std::filesystem::path const& file, fuzz::Bytes bytes) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<char const*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// Equal content has one name, wherever it comes from.
std::string name_of(fuzz::Bytes bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (auto const b : bytes) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3;
  std::string name(16, '0');
  for (auto& c : name) {
    c = "0123456789abcdef"[h >> 60];
    h <<= 4;
  }
  return name;
}

fuzz::Bytes running;

void run(fuzz::Target const& target, fuzz::Bytes bytes) {
  running = bytes;
  target.run(bytes);
}

/// Some bytes changed, some cut out, some doubled.
fuzz::Buffer changed(fuzz::Buffer bytes, std::uint64_t& random) {
  auto const draw = [&random](std::size_t limit) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((random >> 33) % limit);
  };
  for (auto n = 1 + draw(4); n > 0 && !bytes.empty(); --n) {
    auto const at = static_cast<std::ptrdiff_t>(draw(bytes.size()));
    auto const most = static_cast<std::size_t>(bytes.end() - (bytes.begin() + at));
    auto const end = at + static_cast<std::ptrdiff_t>(1 + draw(std::min<std::size_t>(most, 16)));
    switch (draw(4)) {
      case 0:
        bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(draw(256));
        break;
      case 1:
        fuzz::flip(bytes, 8 * static_cast<std::uint64_t>(at) + draw(8));
        break;
      case 2:
        bytes.erase(bytes.begin() + at, bytes.begin() + end);
        break;
      default: {
        fuzz::Buffer const again(bytes.begin() + at, bytes.begin() + end);
        bytes.insert(bytes.begin() + at, again.begin(), again.end());
        break;
      }
    }
  }
  return bytes;
}

int replay(fuzz::Target const& target, std::filesystem::path const& folder) {
  std::map<std::string, fuzz::Buffer> inputs;
  for (auto& seed : target.seeds()) inputs.emplace(name_of(seed), std::move(seed));
  std::size_t const seeds = inputs.size();
  for (auto const& file : std::filesystem::directory_iterator(folder))
    if (file.is_regular_file()) inputs.emplace(file.path().filename(), read(file));
  run(target, {});
  for (auto const& [name, bytes] : inputs) run(target, bytes);
  std::uint64_t random = 1;
  unsigned changes = 0;
  for (; changes < changes_max && !inputs.empty();)
    for (auto const& [name, bytes] : inputs) {
      run(target, changed(bytes, random));
      if (++changes == changes_max) break;
    }
  std::printf("%s: %zu seeds, %zu inputs of the corpus, %u changes of them: all promises kept\n",
              std::string(target.name).c_str(), seeds, inputs.size() - seeds, changes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s TARGET FOLDER [--write]\n", argv[0]);
    return 2;
  }
  // A broken promise aborts; what broke it is worth keeping.
  std::signal(SIGABRT, [](int) {
    write("broken-" + name_of(running), running);
    std::_Exit(1);
  });
  for (auto const* target : targets) {
    if (target->name != argv[1]) continue;
    if (argc == 3) return replay(*target, argv[2]);
    std::filesystem::create_directories(argv[2]);
    for (auto const& seed : target->seeds())
      write(std::filesystem::path(argv[2]) / name_of(seed), seed);
    return 0;
  }
  std::fprintf(stderr, "%s is no target of this build\n", argv[1]);
  return 2;
}
