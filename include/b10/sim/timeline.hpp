#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <b10/sim/journal.hpp>
#include <b10/sim/random.hpp>
#include <b10/time.hpp>

namespace b10::sim {

/// Time that moves only when it is told to, and what is to happen in it. A simulated network and
/// the simulated copy engines of its nodes share one. What is due at the same instant happens in
/// the order in which it was asked for, so a simulation is a function of its seed. One thread.
class Timeline {
 public:
  /// Whose events these are.
  class Client {
   public:
    virtual void on_time(std::uint32_t what, std::uint64_t which) = 0;

   protected:
    ~Client() = default;
  };
  enum class ClientId : std::uint32_t {};

  explicit Timeline(std::uint64_t seed, bool keep_journal = false)
      : journal(keep_journal), random_(seed) {}
  Timeline(Timeline const&) = delete;
  Timeline& operator=(Timeline const&) = delete;

  [[nodiscard]] Instant now() const noexcept { return now_; }
  /// The stream that all the simulator's choices come from.
  [[nodiscard]] Random& random() noexcept { return random_; }

  [[nodiscard]] ClientId join(Client& client) {
    clients_.push_back(&client);
    return ClientId{static_cast<std::uint32_t>(clients_.size() - 1)};
  }
  /// Its events that are still to come do not happen.
  void leave(ClientId id) noexcept { clients_[static_cast<std::uint32_t>(id)] = nullptr; }

  void at(Instant when, ClientId client, std::uint32_t what, std::uint64_t which) {
    heap_.push_back({std::max(when, now_), order_++, client, what, which});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }
  void after(Duration d, ClientId client, std::uint32_t what, std::uint64_t which) {
    at(now_ + d, client, what, which);
  }

  /// When the next event is due; never if there is none.
  [[nodiscard]] Instant next() const noexcept {
    return heap_.empty() ? Instant{std::numeric_limits<std::int64_t>::max()} : heap_.front().when;
  }
  /// Lets everything happen that is due by then; it is then afterwards. Returns how much happened.
  unsigned advance_to(Instant then) {
    unsigned happened = 0;
    for (; !heap_.empty() && heap_.front().when <= then; ++happened) {
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      Due const due = heap_.back();
      heap_.pop_back();
      now_ = due.when;
      if (Client* c = clients_[static_cast<std::uint32_t>(due.client)])
        c->on_time(due.what, due.which);
    }
    now_ = std::max(now_, then);
    return happened;
  }
  unsigned advance(Duration d) { return advance_to(now_ + d); }
  /// To the next event, if there is one.
  bool step() { return !heap_.empty() && advance_to(next()) > 0; }

  Journal journal;

 private:
  struct Due {
    Instant when;
    std::uint64_t order;
    ClientId client;
    std::uint32_t what;
    std::uint64_t which;
  };
  struct Later {
    bool operator()(Due const& a, Due const& b) const noexcept {
      return a.when != b.when ? b.when < a.when : b.order < a.order;
    }
  };

  Instant now_{1'000'000'000};
  Random random_;
  std::uint64_t order_ = 0;
  std::vector<Due> heap_{};
  std::vector<Client*> clients_{};
};

}  // namespace b10::sim
