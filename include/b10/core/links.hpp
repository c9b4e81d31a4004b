#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <b10/core/endpoint.hpp>
#include <b10/core/generation_ledger.hpp>
#include <b10/core/peer.hpp>
#include <b10/metrics.hpp>

namespace b10::core {

/// The peers of a lane and their endpoints: who is whom, which generation is current, what is being
/// connected.
template <class S, class T, class Receive>
class Links {
 public:
  using Endpoint = core::Endpoint<S, T>;
  using Peer = core::Peer<Endpoint, Receive>;

  explicit Links(Metrics& metrics) : metrics_(metrics) {}

  [[nodiscard]] Peer* peer(PeerId id) noexcept {
    auto const i = to_integer(id);
    return i < peers_.size() ? peers_[i].get() : nullptr;
  }
  [[nodiscard]] Peer* by_name(std::string_view name) noexcept {
    for (auto& p : peers_)
      if (p->name == name) return p.get();
    return nullptr;
  }
  [[nodiscard]] Endpoint* endpoint(LinkId id) noexcept {
    auto const it = endpoints_.find(id);
    return it == endpoints_.end() ? nullptr : it->second.get();
  }
  [[nodiscard]] auto& endpoints() noexcept { return endpoints_; }
  [[nodiscard]] Generation last_generation(PairDomain domain) noexcept {
    return ledger_.last(domain);
  }

  /// A sentence if this node must not be let in: a second live node of the same name (C11). A
  /// restart shows itself by the same address, or by the old one being gone, and wins (C17).
  [[nodiscard]] std::string refuse(Hello const& remote) {
    Peer const* p = by_name(remote.name);
    if (!p || !p->current || p->incarnation == remote.incarnation) return {};
    if (!remote.listen.empty() && remote.listen == p->current->info.remote.listen) return {};
    return "the name \"" + remote.name + "\" is taken by a live node at \"" +
           p->current->info.remote.listen + "\", you are at \"" + remote.listen +
           "\": give each node its own Config::name";
  }

  /// Takes a new link in; the older endpoint of the same peer is superseded, or down if it was
  /// another incarnation. One that a newer link has overtaken on its way begins as superseded. Null
  /// if its generation may have been used before: the link is dropped then.
  template <class OnDown>
  Endpoint* open(typename T::Link&& link, LinkInfo const& info, Instant now, OnDown&& on_down) {
    bool const newest = ledger_.use(info.domain, info.generation);
    if (!newest && !ledger_.use_overtaken(info.domain, info.generation)) return nullptr;
    Peer* p = by_name(info.remote.name);
    if (!newest && (!p || p->incarnation != info.remote.incarnation)) return nullptr;
    if (!p) p = &add_peer(info.remote.name);
    if (p->incarnation != info.remote.incarnation) {
      if (Endpoint* old = p->current) on_down(*old);
      p->incarnation = info.remote.incarnation;
      p->seen = {};
    }
    if (!info.remote.listen.empty()) p->address = info.remote.listen;
    LinkId const id = link.id();
    auto const it =
        endpoints_.emplace(id, std::make_unique<Endpoint>(std::move(link), info, p->id)).first;
    Endpoint& e = *it->second;
    if (Endpoint* older = newest ? std::exchange(p->current, &e) : &e) supersede(*older, now);
    p->connect_error.clear();
    metrics_.links_opened.add();
    p->wake_all();
    return &e;
  }

  /// Takes no new transfer on it; running ones go on.
  void drain(Endpoint& e) noexcept {
    if (e.state < Endpoint::State::draining) e.state = Endpoint::State::draining;
    forget_current(e);
  }
  void down(Endpoint& e) noexcept {
    e.state = Endpoint::State::down;
    forget_current(e);
  }
  [[nodiscard]] auto const& peers() const noexcept { return peers_; }

 private:
  Peer& add_peer(std::string const& name) {
    peers_.push_back(std::make_unique<Peer>());
    Peer& p = *peers_.back();
    p.id = PeerId{static_cast<std::uint32_t>(peers_.size() - 1)};
    p.name = name;
    return p;
  }
  /// When both nodes connect to each other at once, the peer may not know the newer one yet and
  /// begin a transfer on this one: that is no fault of its own.
  static void supersede(Endpoint& e, Instant now) noexcept {
    e.state = Endpoint::State::superseded;
    e.superseded_at = now;
  }
  void forget_current(Endpoint& e) noexcept {
    Peer* p = peer(e.peer);
    if (p->current == &e) p->current = nullptr;
  }

  Metrics& metrics_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<LinkId, std::unique_ptr<Endpoint>> endpoints_;
  GenerationLedger ledger_;
};

}  // namespace b10::core
