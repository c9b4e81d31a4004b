// What a composition guarantees is derived from what its policies say of themselves, and sets of
// policies can be named, changed and enumerated.
#include <b10/contract.hpp>
#include <b10/policy_set.hpp>

#include <set>
#include <string>
#include <type_traits>

#include <boost/hana/length.hpp>

#include "support/catch.hpp"

using namespace b10;

namespace {

using Loop = with<host_reference, staging::Host<>, transport::Loopback>;
using V1 = with<v1_ucx, transport::Loopback>;

/// An engine that will not be built on less.
template <NeverSilent Node>
constexpr bool takes(Node const*) {
  return true;
}
constexpr bool takes(void const*) { return false; }

}  // namespace

TEST_CASE("the reference guarantees all but changed payloads, and digests add that", "[contract]") {
  STATIC_REQUIRE(NeverSilent<reference>);
  STATIC_REQUIRE(NeverSilent<host_reference>);
  STATIC_REQUIRE(contract_of<Loop>::request_scoped_failure);
  STATIC_REQUIRE_FALSE(NeverSilentNorChanged<Loop>);
  STATIC_REQUIRE(NeverSilentNorChanged<with<Loop, completion::Digested>>);
}

TEST_CASE("each policy that promises less takes its guarantee away", "[contract]") {
  STATIC_REQUIRE_FALSE(contract_of<with<Loop, completion::SendComplete>>::landed_before_success);
  STATIC_REQUIRE_FALSE(contract_of<with<Loop, tag::Low12>>::identity_never_recurs);
  STATIC_REQUIRE(contract_of<with<Loop, tag::Low12>>::message_checked);
  STATIC_REQUIRE_FALSE(contract_of<with<Loop, quarantine::None>>::late_write_contained);
  STATIC_REQUIRE_FALSE(contract_of<with<Loop, quarantine::StagingOnly<>>>::late_write_contained);
  STATIC_REQUIRE_FALSE(contract_of<with<Loop, quarantine::StagingOnly<>>>::pages_protected);
  STATIC_REQUIRE_FALSE(contract_of<V1>::message_checked);
  STATIC_REQUIRE_FALSE(contract_of<V1>::request_scoped_failure);
}

TEST_CASE("digests go only with policies under which messages are checked", "[contract]") {
  using Digested = with<Loop, completion::Digested>;
  STATIC_REQUIRE(Composable<Digested>);
  STATIC_REQUIRE(Composable<with<Digested, tag::Low12>>);
  STATIC_REQUIRE(Composable<with<Digested, quarantine::None>>);
  STATIC_REQUIRE_FALSE(Composable<with<Digested, tag::Low12, quarantine::None>>);
  STATIC_REQUIRE_FALSE(
      contract_of<with<Digested, tag::Low12, quarantine::None>>::integrity_checked);
}

TEST_CASE("an engine can refuse a composition that is not safe enough", "[contract]") {
  CHECK(takes(static_cast<transceiver_of<Loop>*>(nullptr)));
  CHECK_FALSE(takes(static_cast<transceiver_of<V1>*>(nullptr)));
}

TEST_CASE("a contract prints a line a guarantee and why it holds or not", "[contract]") {
  auto const text = contract_of<V1>::table();
  CHECK(std::count(text.begin(), text.end(), '\n') == 7);
  CHECK(text.find("no   landed_before_success   success means that the transport has") == 0);
  for (Guarantee const& g : contract_of<Loop>::all()) {
    CAPTURE(g.name);
    CHECK(g.holds == (g.name != "integrity_checked"));
    CHECK_FALSE(g.because.empty());
  }
}

TEST_CASE("a policy replaces the one of its own axis, whatever the order", "[policy_set]") {
  using One = with<Loop, tag::Low12, quarantine::None, slicing::Whole>;
  using Other = with<Loop, slicing::Whole, quarantine::None, tag::Low12>;
  STATIC_REQUIRE(std::is_same_v<One, Other>);
  STATIC_REQUIRE(std::is_same_v<One::Staging, staging::Host<slicing::Whole, copy::Memcpy>>);
  STATIC_REQUIRE(std::is_same_v<One::Completion, completion::CopyEvent>);
  STATIC_REQUIRE(std::is_same_v<with<Loop>, Loop>);
  STATIC_REQUIRE(std::is_same_v<set_of<transceiver_of<Loop>>, Loop>);
  CHECK(One::name() ==
        "staging::Host, slicing::Whole, copy::Memcpy, tag::Low12, completion::CopyEvent, "
        "quarantine::None, transport::Loopback");
}

TEST_CASE("a matrix has every set whose policies go together, and no other", "[policy_set]") {
  using Sim = staging::Host<slicing::Chunked<4096>, copy::Fake>;
  constexpr auto sets = matrix(
      policies<staging::Host<>, staging::SharedHost<>, Sim>, policies<tag::Hashed, tag::Low12>,
      policies<completion::CopyEvent, completion::SendComplete, completion::Digested>,
      policies<quarantine::Ttl<>, quarantine::StagingOnly<>, quarantine::None>,
      policies<transport::Loopback, transport::Sim>);
  constexpr unsigned all = 3 * 2 * 3 * 3 * 2;
  constexpr unsigned digests_unread = 3 * 1 * 1 * 2 * 2;  // Low12, Digested, no identities held
  STATIC_REQUIRE(decltype(boost::hana::length(sets))::value == all - digests_unread);
  std::set<std::string> names;
  unsigned safe = 0;
  for_each_set(sets, [&](auto set) {
    using Set = typename decltype(set)::type;
    names.insert(Set::name());
    safe += NeverSilent<Set>;
  });
  CHECK(names.size() == all - digests_unread);
  CHECK(safe == 3 * 1 * 2 * 1 * 2);
}
