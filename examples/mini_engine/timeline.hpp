// What ran when, in both processes: their steady clocks are one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <b10/time.hpp>

namespace mini {

enum class What : std::uint8_t { compute, transfer, aux, request, verify, kill };

struct Event {
  What what{};
  std::uint64_t request = 0;
  b10::Instant begin{};
  b10::Instant end{};
  std::uint64_t amount = 0;  ///< tokens or bytes
};

/// Disjoint stretches of time, in order.
class Stretches {
 public:
  explicit Stretches(std::vector<std::pair<std::int64_t, std::int64_t>> all) {
    std::sort(all.begin(), all.end());
    for (auto const& s : all) {
      if (s.second <= s.first) continue;
      if (!list_.empty() && s.first <= list_.back().second)
        list_.back().second = std::max(list_.back().second, s.second);
      else
        list_.push_back(s);
    }
  }
  [[nodiscard]] std::int64_t length() const {
    std::int64_t sum = 0;
    for (auto const& [from, to] : list_) sum += to - from;
    return sum;
  }
  [[nodiscard]] Stretches common(Stretches const& other) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> both;
    for (auto a = list_.begin(), b = other.list_.begin();
         a != list_.end() && b != other.list_.end();) {
      both.emplace_back(std::max(a->first, b->first), std::min(a->second, b->second));
      if (a->second < b->second)
        ++a;
      else
        ++b;
    }
    return Stretches(std::move(both));
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> list_{};
};

class Timeline {
 public:
  void add(Event const& e) { events_.push_back(e); }

  [[nodiscard]] Stretches all(What what) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> list;
    for (auto const& e : events_)
      if (e.what == what) list.emplace_back(e.begin.ns, e.end.ns);
    return Stretches(std::move(list));
  }
  /// Of the time in which something was on its way, the share in which prefill computed.
  [[nodiscard]] double hidden() const {
    auto const transfers = all(What::transfer);
    auto const length = transfers.length();
    return length == 0 ? 1.0
                       : static_cast<double>(transfers.common(all(What::compute)).length()) /
                             static_cast<double>(length);
  }
  /// By request: from the end of its last step of compute to the end of its last transfer, and how
  /// long its other transfers took, each from when it could run.
  struct Tails {
    std::vector<b10::Duration> tails{};
    std::vector<b10::Duration> chunks{};
  };
  [[nodiscard]] Tails tails() const {
    std::map<std::uint64_t, std::vector<Event const*>> computes, transfers;
    for (auto const& e : events_) {
      if (e.what == What::compute) computes[e.request].push_back(&e);
      if (e.what == What::transfer) transfers[e.request].push_back(&e);
    }
    Tails out;
    auto const by_end = [](auto const* a, auto const* b) { return a->end < b->end; };
    for (auto& [request, list] : transfers) {
      auto const& steps = computes[request];
      if (steps.empty()) continue;
      std::sort(list.begin(), list.end(), by_end);
      out.tails.push_back(list.back()->end -
                          (*std::max_element(steps.begin(), steps.end(), by_end))->end);
      for (std::size_t i = 0; i + 1 < list.size(); ++i)
        out.chunks.push_back(list[i]->end - list[i]->begin);
    }
    return out;
  }

  /// Chrome's trace format. Events of a kind that overlap are put on rows of their own.
  void write(std::string const& file) const {
    static constexpr char const* names[] = {"compute", "transfer", "AUX",
                                            "request", "verify",   "kill"};
    std::ofstream out(file);
    std::vector<Event> sorted = events_;
    std::sort(sorted.begin(), sorted.end(),
              [](auto const& a, auto const& b) { return a.begin < b.begin; });
    auto const zero = sorted.empty() ? b10::Instant{} : sorted.front().begin;
    std::map<What, std::vector<b10::Instant>> rows;
    out << "{\"traceEvents\": [";
    char const* comma = "\n";
    auto const begin = [&]() -> std::ostream& {
      out << comma;
      comma = ",\n";
      return out;
    };
    for (int pid = 1; pid <= 2; ++pid)
      begin() << R"({"ph": "M", "name": "process_name", "pid": )" << pid
              << R"(, "args": {"name": ")" << (pid == 1 ? "prefill" : "decode") << "\"}}";
    for (auto const& e : sorted) {
      auto& ends = rows[e.what];
      auto row = std::find_if(ends.begin(), ends.end(), [&](auto end) { return end <= e.begin; });
      if (row == ends.end()) row = ends.insert(ends.end(), b10::Instant{});
      *row = e.end;
      auto const kind = static_cast<std::size_t>(e.what);
      begin() << R"({"ph": "X", "name": ")" << names[kind] << ' ' << e.request << R"(", "pid": )"
              << (e.what <= What::aux ? 1 : 2) << R"(, "tid": )"
              << 1000 * kind + static_cast<std::size_t>(row - ends.begin()) << R"(, "ts": )"
              << static_cast<double>((e.begin - zero).ns) / 1e3 << R"(, "dur": )"
              << static_cast<double>((e.end - e.begin).ns) / 1e3 << R"(, "args": {")"
              << (e.what == What::compute ? "tokens" : "bytes") << "\": " << e.amount << "}}";
    }
    for (auto const& [what, ends] : rows)
      for (std::size_t i = 0; i < ends.size(); ++i)
        begin() << R"({"ph": "M", "name": "thread_name", "pid": )" << (what <= What::aux ? 1 : 2)
                << R"(, "tid": )" << 1000 * static_cast<std::size_t>(what) + i
                << R"(, "args": {"name": ")" << names[static_cast<std::size_t>(what)] << "\"}}";
    out << "\n]}\n";
    if (!out) throw std::runtime_error("--timeline is '" + file + "', which cannot be written");
  }

 private:
  std::vector<Event> events_{};
};

}  // namespace mini
