// expect-error: link b10::cuda, or use b10::HostTransceiver
#include <b10/transceiver.hpp>

using Reference = b10::Transceiver<>;
