#include <b10/quarantine/ttl.hpp>

#include <b10/completion/copy_event.hpp>

#include "laws/completion.hpp"
#include "laws/quarantine.hpp"
#include "support/catch.hpp"

using namespace b10;

TEST_CASE("CopyEvent obeys the completion laws and proves landing", "[completion]") {
  laws::completion<completion::CopyEvent>();
  STATIC_REQUIRE(completion::CopyEvent::proves_landing);
}

TEST_CASE("Ttl obeys the quarantine laws", "[quarantine]") {
  laws::quarantine(quarantine::Ttl<>{});
  laws::quarantine(quarantine::Ttl<1>{});
  laws::quarantine(quarantine::TtlMs<250>{});
}

TEST_CASE("Ttl holds at 119.9 s and drops at 120.1 s", "[quarantine][S3]") {
  quarantine::Ttl<> const ttl;
  CHECK(ttl.sentence(milliseconds(119'900), false) == Sentence::hold);
  CHECK(ttl.sentence(Duration{seconds(120).ns - 1}, false) == Sentence::hold);
  CHECK(ttl.sentence(seconds(120), false) == Sentence::drop);
  CHECK(ttl.sentence(milliseconds(120'100), false) == Sentence::drop);
}

TEST_CASE("Ttl keeps what is still pending, however long past its time", "[quarantine][C08]") {
  quarantine::Ttl<> const ttl;
  CHECK(ttl.sentence(milliseconds(120'100), true) == Sentence::hold);
  CHECK(ttl.sentence(seconds(1'000'000), true) == Sentence::hold);
}

TEST_CASE("Ttl never recycles", "[quarantine][S4]") {
  for (bool const pending : {true, false}) {
    for (auto age = seconds(0); age < seconds(300); age = age + milliseconds(50)) {
      REQUIRE(quarantine::Ttl<>{}.sentence(age, pending) != Sentence::recycle);
    }
  }
}

TEST_CASE("TtlMs counts milliseconds", "[quarantine]") {
  STATIC_REQUIRE(quarantine::TtlMs<250>{}.sentence(milliseconds(249), false) == Sentence::hold);
  STATIC_REQUIRE(quarantine::TtlMs<250>{}.sentence(milliseconds(250), false) == Sentence::drop);
  STATIC_REQUIRE(quarantine::Ttl<>::ttl == seconds(120));
}
