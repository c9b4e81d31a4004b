#include <b10/transceiver.hpp>

std::size_t an_engine_names_it() { return sizeof(b10::HostTransceiver); }
