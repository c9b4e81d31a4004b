// KV on a GPU: the reference with one thing changed at a time, and staging that peers write.
#include "pair_of.hpp"

namespace b10::bench {

void add_gpu(Catalog& to) {
  using Default = reference;
  using Four = slicing::Pipelined<>;
  using Shared = staging::SharedHost<Four, copy::Staged, staging::CudaPinning>;
  auto const add = [&]<class Set>(boost::hana::basic_type<Set>) {
    add_matrix<Default>(
        to, Carrier::tcp,
        matrix(policies<typename Set::Staging>, policies<typename Set::Tags>,
               policies<typename Set::Completion>, policies<typename Set::Quarantine>,
               policies<typename Set::Transport>),
        true);
  };
  constexpr auto chosen = policies<
      Default, with<Default, copy::Direct>, with<Default, copy::CopyEngineBatch>,
      with<Default, slicing::Whole>, with<Default, slicing::Chunked<(4u << 20)>>,
      with<Default, slicing::Pipelined<(1u << 20), 4>>,
      with<Default, slicing::Pipelined<(1u << 20), 8>>, with<Default, completion::Digested>,
      with<Default, Shared>, with<Default, Shared, slicing::Pipelined<(1u << 20), 8>>,
      with<Default, Shared, slicing::Pipelined<(16u << 20), 4>>,
      with<Default, Shared, completion::Digested>, with<Default, staging::Device<Four, copy::Peer>>,
      with<Default, staging::Device<slicing::Pipelined<(16u << 20), 4>, copy::Peer>>>;
  boost::hana::for_each(chosen, add);
}

}  // namespace b10::bench
