// expect-error: nobody would read the digests: use tag::Hashed, or quarantine::Ttl
// As users meet it: three policies that do not go together.
#include <b10/quarantine/none.hpp>
#include <b10/tag/low12.hpp>
#include <b10/transceiver.hpp>

using Node = b10::Transceiver<b10::staging::Host<>, b10::tag::Low12, b10::completion::Digested,
                              b10::quarantine::None, b10::transport::Loopback>;
std::size_t const size = sizeof(Node);
