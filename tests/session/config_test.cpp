// The session layer's configuration: resolved once, refused with a reason, its schema kept.
#include <b10/session/session_config.hpp>
#include <b10/session/session_node.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>

#include "support/catch.hpp"

using namespace b10;
using namespace b10::session;
using Catch::Contains;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
SessionConfig resolve(SessionSettings s, EngineFacts const& facts = {}, Variables const& set = {}) {
  return {s, facts, [&](std::string_view name) -> std::optional<std::string> {
            auto const it = set.find(name);
            if (it == set.end()) return std::nullopt;
            return it->second;
          }};
}

}  // namespace

TEST_CASE("R33 configuration is resolved once and then immutable", "[session][R33]") {
  static_assert(!std::is_copy_assignable_v<SessionConfig>);
  static_assert(std::is_const_v<
                std::remove_reference_t<decltype(std::declval<SessionConfig&>().settings())>>);
  Variables set{{"B10_SESSION_PIPELINED", "1"}};
  auto const config = resolve({}, {}, set);
  set["B10_SESSION_PIPELINED"] = "0";
  CHECK(config.settings().pipelined);
  CHECK(config.agreed() == std::vector<Setting>{{"pipelined", "1"}});
  CHECK_THAT(config.explain(), Contains("pipelined = 1\n"));
}

TEST_CASE("R35 seven unmet requirements are seven distinct errors", "[session][R35]") {
  std::vector<std::pair<std::function<void(EngineFacts&)>, char const*>> const unmet{
      {[](auto& f) { f.generation_first = false; }, "generation-first"},
      {[](auto& f) { f.chunked_prefill = false; }, "chunked prefill"},
      {[](auto& f) { f.beam_width = 4; }, "beam width 1, it is 4"},
      {[](auto& f) { f.backend = "other"; }, "backend \"b10\", it is \"other\""},
      {[](auto& f) { f.pp_size = 2; }, "pipeline parallel size 1, it is 2"},
      {[](auto& f) { f.cp_size = 3; }, "context parallel size 1, it is 3"},
      {[](auto& f) { f.hybrid_manager = true; }, "separate block managers"}};
  std::set<std::string> sentences;
  for (auto const& [change, what] : unmet) {
    EngineFacts facts;
    change(facts);
    CHECK_THROWS_WITH(resolve({.pipelined = true}, facts), Contains(what));
    CHECK_NOTHROW(resolve({}, facts));  // only pipelining needs it
    REQUIRE(unmet_requirements(facts).size() == 1);
    sentences.insert(unmet_requirements(facts)[0]);
  }
  CHECK(sentences.size() == 7);
  CHECK_NOTHROW(resolve({.pipelined = true}));
}

TEST_CASE("R36 the configuration's schema is the golden one", "[session][R36]") {
  char const* const golden =
#include "session/config_schema.inc"
      ;
  CHECK(SessionConfig::schema() == golden);
}

TEST_CASE("R37 settings of an engine that names only some still compile and mean the same",
          "[session][R37]") {
  SessionSettings const some{.pipelined = true};
  CHECK(some.session_limit == seconds(60));
  CHECK(resolve(some).times().operation == seconds(60));
}

TEST_CASE("The environment overrides each setting, and a value that cannot be read is refused",
          "[session][config]") {
  auto const all = resolve({}, {},
                           {{"B10_SESSION_PIPELINED", "1"},
                            {"B10_SESSION_STRICT_BLOCKS", "1"},
                            {"B10_SESSION_EARLY_PREFIX", "1"},
                            {"B10_SESSION_OPERATION_MS", "7"},
                            {"B10_SESSION_LIMIT_MS", "8"},
                            {"B10_SESSION_EARLY_MS", "9"}});
  CHECK(all.settings() ==
        SessionSettings{true, true, true, milliseconds(7), milliseconds(8), milliseconds(9)});
  CHECK_THROWS_WITH(resolve({}, {}, {{"B10_SESSION_PIPELINED", "yes"}}),
                    Contains("B10_SESSION_PIPELINED is \"yes\", it must be 0 or 1"));
  CHECK_THROWS_WITH(resolve({}, {}, {{"B10_SESSION_EARLY_MS", "9s"}}), Contains("milliseconds"));
  CHECK_THROWS_WITH(resolve({}, {}, {{"B10_SESSION_LIMIT_MS", "0"}}),
                    Contains("session_limit is 0 ns"));
}

TEST_CASE("R33 a node takes its configuration whole", "[session][R33]") {
  SessionSettings settings;
  settings.pipelined = true;
  settings.operation_limit = seconds(7);
  settings.early_limit = seconds(8);
  auto const config = resolve(settings);
  NodeShape shape;
  shape.name = "n";
  auto const o = NodeOptions::of(shape, config);
  CHECK(o.shape.name == "n");
  CHECK(o.shape.settings == config.agreed());
  CHECK(o.times.operation == seconds(7));
  CHECK(o.early_limit == seconds(8));
}
