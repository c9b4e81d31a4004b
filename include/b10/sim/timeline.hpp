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
/// the order in which it was asked for, so a simulation is a function of its seed; or a Chooser
/// says in which. One thread.
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
  /// Decides which of `count` (2 or more) things that are due at the same instant happens first; 0
  /// is the one that was asked for first. With latencies of zero it goes through all orders.
  class Chooser {
   public:
    virtual std::size_t choose(std::size_t count) = 0;

   protected:
    ~Chooser() = default;
  };

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

  /// Things of the same flow, other than 0, happen in the order in which they were asked for.
  void at(Instant when, ClientId client, std::uint32_t what, std::uint64_t which,
          std::uint64_t flow = 0) {
    heap_.push_back({std::max(when, now_), order_++, client, what, which, flow});
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
      happen(due);
    }
    now_ = std::max(now_, then);
    return happened;
  }
  unsigned advance(Duration d) { return advance_to(now_ + d); }
  /// To the next event, if there is one. With a chooser one thing happens, without one all that are
  /// due at the same instant.
  bool step() {
    if (heap_.empty()) return false;
    if (!chooser) return advance_to(next()) > 0;
    happen(take_chosen());
    return true;
  }

  Journal journal;
  Chooser* chooser = nullptr;

 private:
  struct Due {
    Instant when;
    std::uint64_t order;
    ClientId client;
    std::uint32_t what;
    std::uint64_t which;
    std::uint64_t flow;
  };
  struct Later {
    bool operator()(Due const& a, Due const& b) const noexcept {
      return a.when != b.when ? b.when < a.when : b.order < a.order;
    }
  };

  void happen(Due const& due) {
    now_ = due.when;
    if (Client* c = clients_[static_cast<std::uint32_t>(due.client)])
      c->on_time(due.what, due.which);
  }
  [[nodiscard]] Due take_chosen() {
    std::sort(heap_.begin(), heap_.end(), [](Due const& a, Due const& b) { return Later{}(b, a); });
    std::vector<std::size_t> ready;  // sorted is a heap, and earliest first
    for (std::size_t i = 0; i < heap_.size() && heap_[i].when == heap_[0].when; ++i)
      if (heap_[i].flow == 0 || std::none_of(ready.begin(), ready.end(), [&](std::size_t r) {
            return heap_[r].flow == heap_[i].flow;
          }))
        ready.push_back(i);
    auto const chosen = ready[ready.size() > 1 ? chooser->choose(ready.size()) : 0];
    Due const due = heap_[chosen];
    heap_.erase(heap_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return due;
  }

  Instant now_{1'000'000'000};
  Random random_;
  std::uint64_t order_ = 0;
  std::vector<Due> heap_{};
  std::vector<Client*> clients_{};
};

}  // namespace b10::sim
