// Two nodes, one WRITE. In an engine they are two processes; here they share one.
#include <cstdio>
#include <vector>

#include <b10/transceiver.hpp>

using namespace b10;

HostTransceiver::Config config(char const* name) {
  HostTransceiver::Config c;
  c.name = name;
  c.staging.buffer_bytes = 64 << 20;
  c.transport.listen = "127.0.0.1:0";            // the system chooses a port
  c.transport.key = "a secret all nodes share";  // at least 16 bytes, from a random source
  return c;
}

int main() {
  HostTransceiver prefill(config("prefill")), decode(config("decode"));

  // Decode: a KV pool of 1000 blocks. Only what is registered and granted can be written.
  constexpr std::size_t block = 64 * 1024;
  std::vector<std::byte> pool(1000 * block);
  decode.register_memory({pool.data(), pool.size()});
  LocalSpan const mine[] = {{&pool[700 * block], block}, {&pool[3 * block], block}};
  Grant const grant = decode.grant(RequestId{7}, mine, seconds(5));

  // Prefill: has the request id and the addresses from decode, over the engine's own channel.
  std::vector<std::byte> kv(2 * block, std::byte{42});
  LocalSpan const sources[] = {{&kv[0], block}, {&kv[block], block}};
  RemoteSpan const theirs[] = {{reinterpret_cast<std::uint64_t>(mine[0].address), block},
                               {reinterpret_cast<std::uint64_t>(mine[1].address), block}};
  PeerId const peer = prefill.connect(decode.address(), seconds(5));
  Transfer const transfer = prefill.write(peer, {.request = RequestId{7},
                                                 .sources = sources,
                                                 .destinations = theirs,
                                                 .deadline = seconds(2)});

  auto const landed = grant.next(seconds(3));   // decided by the receiver, after its last copy
  auto const sent = transfer.wait(seconds(3));  // what the sender heard of it
  if (!landed || !landed->ok() || !sent || !sent->ok()) {
    std::printf("failed: %s\n", landed ? landed->why.c_str()
                                : sent ? sent->why.c_str()
                                       : "no outcome");
    return 1;
  }
  bool const there = pool[3 * block] == std::byte{42} && pool[701 * block - 1] == std::byte{42};
  std::printf("%llu bytes landed in 2 blocks, %s\n", static_cast<unsigned long long>(landed->bytes),
              there ? "and they are the right ones" : "but they are WRONG");
  std::printf("%s\n", prefill.explain().c_str());
  return there ? 0 : 1;
}
