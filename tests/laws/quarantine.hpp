#pragma once

#include <b10/quarantine.hpp>
#include <b10/time.hpp>

#include "support/catch.hpp"

namespace laws {

/// Every model of b10::Quarantine passes these.
template <b10::Quarantine Q>
void quarantine(Q const& policy) {
  using namespace b10;
  CHECK(policy.sentence(Duration{0}, true) != Sentence::drop);
  CHECK(policy.sentence(Duration{0}, false) != Sentence::drop);
  CHECK((Q::holds_views || !Q::holds_identities));
  CHECK(Q::afterwards != Sentence::hold);
  CHECK(policy.sentence(seconds(1'000'000), false) == Q::afterwards);

  for (bool const pending : {true, false}) {  // once not held, never held again
    auto last = Sentence::hold;
    for (auto age = seconds(0); age < seconds(1000); age = age + milliseconds(100)) {
      auto const now = policy.sentence(age, pending);
      if (last != Sentence::hold && now != last) FAIL("changed its mind after " << age.seconds());
      last = now;
    }
  }
}

}  // namespace laws
