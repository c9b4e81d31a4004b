// Over UCX the default with one thing changed at a time, and what v1 transceivers are.
#include "pair_of.hpp"

namespace b10::bench {

void add_ucx(Catalog& to, Carrier wire) {
  using Default = host_reference;
  using Host = with<Default, staging::Host<>>;
  auto const add = [&]<class Set>(boost::hana::basic_type<Set>) {
    add_matrix<Default>(
        to, wire,
        matrix(policies<typename Set::Staging>, policies<typename Set::Tags>,
               policies<typename Set::Completion>, policies<typename Set::Quarantine>,
               policies<typename Set::Transport>));
  };
  constexpr auto chosen = policies<
      Default, with<Default, slicing::Whole>, with<Default, slicing::Chunked<(256u << 10)>>,
      with<Default, slicing::Pipelined<(64u << 10), 4>>,
      with<Default, slicing::Pipelined<(256u << 10), 8>>,
      with<Default, slicing::Pipelined<(1u << 20), 4>>,
      with<Default, slicing::Pipelined<(4u << 20), 4>>, with<Default, completion::Digested>, Host,
      with<Host, slicing::Whole>, with<Host, slicing::Pipelined<(1u << 20), 4>>,
      with<Host, completion::Digested>, v1_ucx, v1_ucx_plain>;
  boost::hana::for_each(chosen, add);
}

}  // namespace b10::bench
