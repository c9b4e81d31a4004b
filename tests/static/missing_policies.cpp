// expect-error: add -I<b10>/policies
#include <b10/transceiver.hpp>
