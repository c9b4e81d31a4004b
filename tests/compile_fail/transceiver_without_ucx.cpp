// expect-error: link b10::ucx
#include <b10/transceiver.hpp>

using Node = b10::Transceiver<b10::staging::Host<>>;
