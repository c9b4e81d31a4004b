#pragma once

namespace b10 {

class ReadyList;

/// Something that can be woken: a node of an intrusive list, so waking allocates nothing.
/// Single-threaded: belongs to one lane.
struct Waker {
  ReadyList* list = nullptr;
  Waker* next = nullptr;
  bool queued = false;
  inline void wake() noexcept;
};

/// First-in first-out list of woken things. Waking twice before a run queues once.
class ReadyList {
 public:
  void push(Waker& w) noexcept {
    if (w.queued) return;
    w.queued = true;
    w.next = nullptr;
    (tail_ ? tail_->next : head_) = &w;
    tail_ = &w;
  }
  [[nodiscard]] Waker* pop() noexcept {
    Waker* w = head_;
    if (!w) return nullptr;
    head_ = w->next;
    if (!head_) tail_ = nullptr;
    w->queued = false;
    return w;
  }
  void remove(Waker& w) noexcept {
    if (!w.queued) return;
    Waker* before = nullptr;
    for (Waker* at = head_; at; before = at, at = at->next) {
      if (at != &w) continue;
      (before ? before->next : head_) = w.next;
      if (tail_ == &w) tail_ = before;
      break;
    }
    w.queued = false;
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }

 private:
  Waker* head_ = nullptr;
  Waker* tail_ = nullptr;
};

inline void Waker::wake() noexcept {
  if (list) list->push(*this);
}

}  // namespace b10
