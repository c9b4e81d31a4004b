// What nodes and agents tell of themselves.
#include "fuzz.hpp"

#include <optional>

#include <b10/hello.hpp>
#include <b10/session/agent_descriptor.hpp>

namespace fuzz {
namespace {

using namespace b10;

Hello full_hello() {
  Hello h;
  h.name = "prefill-0";
  h.incarnation = {1, 2};
  h.listen = "10.0.0.1:4000";
  h.transport = "ucx 1.13 tcp";
  h.policies = "tag::Hashed";
  h.layout = "llama, revision 3";
  h.slice_bytes = 1 << 18;
  h.staging = "memfd b n 1 2 3 4 5 s";
  h.features = 3;
  h.features_needed = 1;
  return h;
}

void node(Bytes in) {
  auto const hello = decode_hello(in);
  if (!hello || hello->protocol != protocol_version) return;
  require(decode_hello(encode_hello(*hello)) == hello);
  require(!incompatibility(*hello, *hello).empty());  // nobody talks to itself
  auto const own = full_hello();
  auto const here = incompatibility(own, *hello), there = incompatibility(*hello, own);
  require(here.empty() == there.empty());
  require(is_plain_text(here));
}

void agent(Bytes in) {
  try {
    auto const d = decode_agent_descriptor(in);
    require(decode_agent_descriptor(encode_agent_descriptor(d)) == d);
  } catch (Error const& e) {
    require(is_plain_text(e.what()));
  }
}

void run(Bytes bytes) {
  Input in(bytes);
  in.number<std::uint8_t>() % 2 == 0 ? node(in.rest()) : agent(in.rest());
}

std::vector<Buffer> seeds() {
  std::vector<Buffer> out;
  auto const add = [&](std::uint8_t kind, Bytes bytes) {
    out.push_back(Seed().number(kind).bytes(bytes).take());
  };
  Hello h = full_hello();
  add(0, encode_hello(h));
  h.features_needed = 4;
  h.layout.clear();
  h.listen.clear();
  add(0, encode_hello(h));
  h.protocol = protocol_version + 1;
  add(0, encode_hello(h));
  AgentDescriptor d;
  d.name = "decode-1";
  d.address = "10.0.0.2:4001";
  d.features = agent_features;
  add(1, encode_agent_descriptor(d));
  d.regions = {{4096, 4096, Device::host}, {1u << 30, 1u << 20, Device{1}}};
  add(1, encode_agent_descriptor(d));
  return out;
}

}  // namespace

Target const hello{"hello", run, seeds};

}  // namespace fuzz
