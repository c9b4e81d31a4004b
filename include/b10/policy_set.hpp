#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <boost/hana/cartesian_product.hpp>
#include <boost/hana/filter.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/transform.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <b10/contract.hpp>
#include <b10/transceiver.hpp>
#include <b10/v1.hpp>

namespace b10 {

/// Five policies as one type, for those who choose among compositions: tests, benchmarks, engines
/// that are configured at compile time. It holds nothing.
template <class StagingPolicy, class TagsPolicy, class CompletionPolicy, class QuarantinePolicy,
          class TransportPolicy>
struct PolicySet {
  using Staging = StagingPolicy;
  using Tags = TagsPolicy;
  using Completion = CompletionPolicy;
  using Quarantine = QuarantinePolicy;
  using Transport = TransportPolicy;

  /// For logs and benchmarks: "staging::Host, slicing::Whole, copy::Memcpy, tag::Hashed, ...".
  [[nodiscard]] static std::string name() {
    std::string text;
    for (std::string_view const part :
         {Staging::name, Staging::Slicing::name, Staging::CopyEngine::name, Tags::name,
          Completion::name, Quarantine::name, Transport::name})
      text.append(text.empty() ? "" : ", ").append(part);
    return text;
  }
};

/// The transceiver of a set, with all functions; b10::Transceiver adds a check of its own.
template <Composition Set>
using transceiver_of =
    BasicTransceiver<typename Set::Staging, typename Set::Tags, typename Set::Completion,
                     typename Set::Quarantine, typename Set::Transport>;

/// The set of any composition.
template <Composition T>
using set_of = PolicySet<typename T::Staging, typename T::Tags, typename T::Completion,
                         typename T::Quarantine, typename T::Transport>;

namespace detail {

/// A staging policy with another slicing policy or copy engine, which are its first parameters.
template <class StagingPolicy, class P>
struct Restaged;
template <template <class, class, class...> class S, class Sl, class E, class... More, class P>
struct Restaged<S<Sl, E, More...>, P> {
  using type =
      S<std::conditional_t<Slicing<P>, P, Sl>, std::conditional_t<CopyEngine<P>, P, E>, More...>;
};

/// A set with the policy of one axis replaced; the axis is the one whose concept P models.
template <class Set, class P>
struct Replaced {
  template <bool on_axis, class Old>
  using pick = std::conditional_t<on_axis, P, Old>;
  static_assert(Staging<P> || TagScheme<P> || Completion<P> || Quarantine<P> || Transport<P> ||
                    Slicing<P> || CopyEngine<P>,
                "b10::with: this type models none of the axes; assert the concept it is meant for "
                "(b10::Staging, b10::TagScheme, ...) to see what it lacks");
  using type =
      PolicySet<pick<Staging<P>, typename Set::Staging>, pick<TagScheme<P>, typename Set::Tags>,
                pick<Completion<P>, typename Set::Completion>,
                pick<Quarantine<P>, typename Set::Quarantine>,
                pick<Transport<P>, typename Set::Transport>>;
};
template <class Set, class P>
  requires Slicing<P> || CopyEngine<P>
struct Replaced<Set, P> {
  using type =
      PolicySet<typename Restaged<typename Set::Staging, P>::type, typename Set::Tags,
                typename Set::Completion, typename Set::Quarantine, typename Set::Transport>;
};

template <class Set, class... Policies>
struct With {
  using type = Set;
};
template <class Set, class P, class... More>
struct With<Set, P, More...> : With<typename Replaced<Set, P>::type, More...> {};

}  // namespace detail

/// A set with some policies replaced, in any order, each on the axis it is made for:
/// `with<reference, quarantine::Ttl<30>, slicing::Whole, transport::Loopback>`.
template <Composition Set, class... Policies>
using with = typename detail::With<set_of<Set>, Policies...>::type;

/// Whether the policies of a set go together; the transceiver's constraints say why not.
template <class Set>
concept Composable =
    Composition<Set> &&
    req::DigestsCopies<
        detail::EngineToDigest<typename Set::Completion, typename Set::Staging::CopyEngine>> &&
    req::ChecksDigestedMessages<typename Set::Completion, typename Set::Tags,
                                typename Set::Quarantine>;

// --- Named sets ----------------------------------------------------------------------------------

/// What b10::Transceiver<> is. Needs b10::cuda and b10::ucx where it is used.
using reference = PolicySet<staging::PinnedHost<slicing::Pipelined<>, copy::Staged>, tag::Hashed,
                            completion::CopyEvent, quarantine::Ttl<120>, transport::Ucx>;
/// What b10::HostTransceiver is: the reference without a GPU. Needs b10::ucx where it is used.
using host_reference = PolicySet<staging::SharedHost<>, tag::Hashed, completion::CopyEvent,
                                 quarantine::Ttl<120>, transport::Ucx>;
/// v1 UCX transceivers: hardened, and plain. To compare with, not to use.
using v1_ucx = PolicySet<staging::Host<slicing::Whole>, tag::Low12, completion::SendComplete,
                         quarantine::StagingOnly<>, transport::Ucx>;
using v1_ucx_plain = PolicySet<staging::Host<slicing::Whole>, tag::Low12, completion::SendComplete,
                               quarantine::None, transport::Ucx>;

// --- The matrix ----------------------------------------------------------------------------------

/// One list a axis: `policies<tag::Hashed, tag::Low12>`.
template <class... Policies>
inline constexpr auto policies = boost::hana::tuple_t<Policies...>;

/// All sets of one policy of each list that go together, as a hana::tuple of hana::type, in
/// lexical order. Five lists: staging, tags, completion, quarantine, transport.
template <class... Lists>
[[nodiscard]] constexpr auto matrix(Lists const&... lists) {
  namespace hana = boost::hana;
  static_assert(sizeof...(Lists) == 5, "b10::matrix takes a list for each of the five axes");
  auto const sets = hana::transform(
      hana::cartesian_product(hana::make_tuple(lists...)),
      [](auto const& row) { return hana::unpack(row, hana::template_<PolicySet>); });
  return hana::filter(
      sets, [](auto set) { return hana::bool_c<Composable<typename decltype(set)::type>>; });
}

/// Calls f(hana::type<Set>) for each set of a matrix, in order.
template <class Matrix, class F>
constexpr void for_each_set(Matrix const& sets, F&& f) {
  boost::hana::for_each(sets, f);
}

}  // namespace b10
