// A policy of your own: a tag scheme that keeps off the tags of other libraries on the same UCX
// workers. One type, one line to compose it, and the compiler says what the composition guarantees.
#include <cstdio>
#include <memory>
#include <vector>

#include <b10/contract.hpp>
#include <b10/transceiver.hpp>

using namespace b10;

/// tag::Hashed within the half of the tag space whose highest bit is set; the other half belongs to
/// others. 63 bits are left, so a collision, which the registry catches, is twice as likely.
struct UpperHalf {
  static constexpr std::string_view name = "tag::UpperHalf";
  static constexpr bool identities_recur = false;

  [[nodiscard]] constexpr Tag tag(MessageIdentity m) const noexcept {
    return Tag{to_integer(tag::Hashed{}.tag(m)) | std::uint64_t{1} << 63};
  }
};
static_assert(TagScheme<UpperHalf>);

// Loopback carries bytes within a process, which is enough to try a policy.
using Node = Transceiver<staging::Host<>, UpperHalf, completion::CopyEvent, quarantine::Ttl<120>,
                         transport::Loopback>;
static_assert(NeverSilent<Node>, "what this engine asks of any transceiver");

Node::Config config(char const* name, std::shared_ptr<transport::Loopback::Network> network) {
  Node::Config c;
  c.name = name;
  c.staging.buffer_bytes = 4 << 20;
  c.transport.network = std::move(network);
  c.transport.address = name;
  return c;
}

int main() {
  auto const network =
      std::make_shared<transport::Loopback::Network>(transport::Loopback::Network::Clock::steady);
  Node prefill(config("prefill", network)), decode(config("decode", network));
  std::vector<std::byte> kv(1 << 20, std::byte{42}), pool(1 << 20);
  decode.register_memory({pool.data(), pool.size()});
  LocalSpan const to{pool.data(), pool.size()}, from{kv.data(), kv.size()};
  RemoteSpan const there = as_remote(to);
  Grant const grant = decode.grant(RequestId{7}, {&to, 1}, seconds(5));
  PeerId const peer = prefill.connect("decode", seconds(5));
  Transfer const transfer = prefill.write(peer, {.request = RequestId{7},
                                                 .sources = {&from, 1},
                                                 .destinations = {&there, 1},
                                                 .deadline = seconds(2)});
  auto const sent = transfer.wait(seconds(3));
  if (!sent || !sent->ok() || pool != kv) return 1;
  std::printf("%llu bytes landed\n%s\n%s", static_cast<unsigned long long>(sent->bytes),
              prefill.explain().c_str(), contract_of<Node>::table().c_str());
}
