#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <b10/copy/fake_control.hpp>
#include <b10/copy_engine.hpp>
#include <b10/host_event.hpp>
#include <b10/outcome.hpp>

namespace b10::copy {

/// The copy engine of simulations, beside transport::Sim: copies host memory piece by piece in
/// virtual time, ends copies out of order, late, as failed or never, as its control says. Give each
/// engine a control of its own. One thread.
class Fake {
 public:
  static constexpr std::string_view name = "copy::Fake";
  static constexpr bool ends_inline = false;

  struct Options {
    std::shared_ptr<FakeControl> control{};  ///< required
  };
  using Event = FakeControl::Ticket;
  using SourceReady = HostEvent;

  /// Throws Error{invalid_request} without a control.
  Fake(Options const& options, std::uint64_t) : control_(options.control) {
    if (!control_) throw Error(Reason::invalid_request, "Fake::Options::control must be set");
  }
  Fake(Fake&&) = default;
  Fake& operator=(Fake&&) = delete;
  ~Fake() {
    if (control_) control_->end();
  }

  void gather(SpanRun from, std::byte* to, Event& event) {
    event = control_->start(Direction::gather, from, to);
  }
  void scatter(std::byte const* from, SpanRun to, Event& event) {
    event = control_->start(Direction::scatter, to, const_cast<std::byte*>(from));
  }
  void gather_digested(SpanRun from, std::byte* to, Event& event) { gather(from, to, event); }
  void scatter_digested(std::byte const* from, SpanRun to, Event& event) {
    scatter(from, to, event);
  }
  [[nodiscard]] std::uint64_t digest(Event const& event) const noexcept { return event.digest; }
  [[nodiscard]] bool has_room() const noexcept { return control_->has_room(); }
  [[nodiscard]] CopyState query(Event& event) const noexcept { return control_->query(event); }
  [[nodiscard]] CopyState source_ready(SourceReady const& ready) const noexcept {
    return ready.state();
  }
  [[nodiscard]] std::string why() const { return "the simulation made it fail"; }

 private:
  std::shared_ptr<FakeControl> control_;
};

static_assert(DigestingCopyEngine<Fake>, "copy::Fake must model b10::DigestingCopyEngine");

}  // namespace b10::copy
