#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <b10/completion.hpp>
#include <b10/quarantine.hpp>
#include <b10/tag_scheme.hpp>
#include <b10/unmet.hpp>

namespace b10 {

/// What five policies are together: a transceiver, or a b10::PolicySet.
template <class T>
concept Composition = requires {
  typename T::Staging;
  typename T::Tags;
  typename T::Completion;
  typename T::Quarantine;
  typename T::Transport;
};

/// Whether tags are registered, an id runs once and a message must carry the identity and the
/// length that are expected. Only sets whose names recur and are free again at once (b10/v1.hpp)
/// cannot ask for that: they trust the tag alone.
template <class Tags, class Quarantine>
inline constexpr bool checks_messages = Quarantine::holds_identities || !Tags::identities_recur;

/// One line of a contract.
struct Guarantee {
  std::string_view name;
  bool holds;
  std::string_view because;
};

/// What a composition guarantees, derived from the facts that its policies declare. Constants.
template <Composition T>
struct contract_of {
 private:
  using Tags = typename T::Tags;
  using Completion = typename T::Completion;
  using Quarantine = typename T::Quarantine;

 public:
  /// Success on the sender means that every destination byte is in place.
  static constexpr bool landed_before_success = Completion::proves_landing;
  /// Bytes of a failed transfer that come late land in memory that nothing else uses.
  static constexpr bool late_write_contained =
      Quarantine::holds_views && Quarantine::afterwards == Sentence::drop;
  /// No tag, transfer id or generation is ever used twice.
  static constexpr bool identity_never_recurs = !Tags::identities_recur;
  /// Nothing is scattered but a message of the expected identity and length.
  static constexpr bool message_checked = checks_messages<Tags, Quarantine>;
  /// Sources and destinations are called quiet only when no local copy can touch them.
  static constexpr bool pages_protected = Quarantine::holds_identities;
  /// What goes wrong with one request changes no other one's bytes.
  static constexpr bool request_scoped_failure =
      late_write_contained && identity_never_recurs && message_checked && pages_protected;
  /// A payload that was changed on its way is found.
  static constexpr bool integrity_checked = wants_digests<Completion> && message_checked;

  [[nodiscard]] static constexpr std::array<Guarantee, 7> all() noexcept {
    return {{
        {"landed_before_success", landed_before_success,
         landed_before_success ? "RESULT is sent after the last destination copy has ended"
                               : "success means that the transport has taken the bytes"},
        {"late_write_contained", late_write_contained,
         late_write_contained      ? "staging sits out after a failure, then leaves the process"
         : Quarantine::holds_views ? "staging sits out for a time only and is then used again"
                                   : "staging is used again at once"},
        {"identity_never_recurs", identity_never_recurs,
         identity_never_recurs ? "tags are registered and never derived again"
                               : "the tag scheme derives the same tag again"},
        {"message_checked", message_checked,
         message_checked ? "identity and length are compared before a scatter"
                         : "names recur, so a message is trusted by its tag alone"},
        {"pages_protected", pages_protected,
         pages_protected ? "a failed transfer's pages wait for the events of its copies"
                         : "memory counts as quiet while copies still run"},
        {"request_scoped_failure", request_scoped_failure,
         request_scoped_failure ? "nothing of a failed request can reach another one"
                                : "one of the four guarantees above is missing"},
        {"integrity_checked", integrity_checked,
         integrity_checked ? "each chunk carries a digest"
                           : "payloads rely on the transport's own checksums"},
    }};
  }

  /// The contract for people, a line each.
  [[nodiscard]] static std::string table() {
    std::string text;
    for (Guarantee const& g : all()) {
      text += std::string(g.holds ? "yes  " : "no   ") + std::string(g.name);
      text.append(24 - g.name.size(), ' ').append(g.because).append("\n");
    }
    return text;
  }
};

namespace req {

template <class T>
concept LandsBeforeSuccess =
    contract_of<T>::landed_before_success ||
    unmet<"success would not prove that bytes landed: use completion::CopyEvent">;
template <class T>
concept ContainsLateWrites = contract_of<T>::late_write_contained ||
                             unmet<"a late write could reach staging in use: use quarantine::Ttl">;
template <class T>
concept NeverRepeatsIdentities =
    contract_of<T>::identity_never_recurs || unmet<"a tag could match twice: use tag::Hashed">;
template <class T>
concept ProtectsPages =
    contract_of<T>::pages_protected ||
    unmet<"pages could come back while a copy touches them: use quarantine::Ttl">;
/// A digest travels in the header that says which message it is.
template <class Completion, class Tags, class Quarantine>
concept ChecksDigestedMessages =
    !wants_digests<Completion> || checks_messages<Tags, Quarantine> ||
    unmet<"nobody would read the digests: use tag::Hashed, or quarantine::Ttl">;
template <class T>
concept ChecksIntegrity = contract_of<T>::integrity_checked ||
                          unmet<"a changed payload would not be found: use completion::Digested">;

}  // namespace req

/// A composition that never delivers wrong bytes as right ones, short of payloads that memory or
/// the network change unseen. Require it where an engine takes any transceiver:
/// `template <b10::NeverSilent Node> class Engine;`.
template <class T>
concept NeverSilent = Composition<T> && req::LandsBeforeSuccess<T> && req::ContainsLateWrites<T> &&
                      req::NeverRepeatsIdentities<T> && req::ProtectsPages<T>;

/// The same, with payloads.
template <class T>
concept NeverSilentNorChanged = NeverSilent<T> && req::ChecksIntegrity<T>;

}  // namespace b10
