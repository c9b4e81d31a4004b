// The complete models satisfy every concept: a case fails for nothing but the part that it hides.
#include "complete.hpp"

static_assert(b10::TagScheme<complete::TagScheme>);
static_assert(b10::Slicing<complete::Slicing>);
static_assert(b10::CopyEngine<complete::CopyEngine>);
static_assert(b10::Staging<complete::Staging>);
static_assert(b10::Completion<complete::Completion>);
static_assert(b10::Quarantine<complete::Quarantine>);
static_assert(b10::Transport<complete::Transport>);
