#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace b10::core {

/// A growable list of spans (LocalSpan, RemoteSpan), like std::vector except that resize() does not
/// clear what it adds, and that it is never copied by accident.
///
/// Lists of half a million spans are written once and in order; clearing them before costs as much
/// again. Growing throws std::bad_alloc and leaves the list as it was. One thread at a time.
template <class Span>
  requires std::is_trivially_copyable_v<Span> && std::is_trivially_destructible_v<Span>
class SpanList {
 public:
  using value_type = Span;

  SpanList() = default;
  SpanList(SpanList&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  SpanList& operator=(SpanList&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  [[nodiscard]] Span* data() noexcept { return data_.get(); }
  [[nodiscard]] Span const* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t capacity_bytes() const noexcept { return capacity_ * sizeof(Span); }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Span* begin() noexcept { return data(); }
  [[nodiscard]] Span* end() noexcept { return data() + size_; }
  [[nodiscard]] Span const* begin() const noexcept { return data(); }
  [[nodiscard]] Span const* end() const noexcept { return data() + size_; }
  [[nodiscard]] Span& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] Span const& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] Span& front() noexcept { return data()[0]; }
  [[nodiscard]] Span const& front() const noexcept { return data()[0]; }
  [[nodiscard]] Span& back() noexcept { return data()[size_ - 1]; }
  [[nodiscard]] Span const& back() const noexcept { return data()[size_ - 1]; }

  void clear() noexcept { size_ = 0; }
  void reserve(std::size_t spans) {
    if (spans > capacity_) move_to(spans);
  }
  /// What is added holds nothing until it is assigned.
  void resize(std::size_t spans) {
    if (spans > capacity_) move_to(std::max(spans, 2 * capacity_));
    size_ = spans;
  }
  void push_back(Span const& span) {
    Span const copy = span;  // it may lie in this list
    resize(size_ + 1);
    data()[size_ - 1] = copy;
  }
  void assign(std::span<Span const> spans) {
    resize(spans.size());
    std::copy(spans.begin(), spans.end(), data());
  }

  /// The list as another kind of span, each made by make(old), in the memory of this one, which is
  /// empty afterwards.
  template <class Other, class Make>
    requires(sizeof(Other) == sizeof(Span) && alignof(Other) == alignof(Span))
  [[nodiscard]] SpanList<Other> turn_into(Make make) && noexcept {
    SpanList<Other> out;
    auto* const memory = static_cast<void*>(data_.release());
    out.size_ = std::exchange(size_, 0);
    out.capacity_ = std::exchange(capacity_, 0);
    for (std::size_t i = 0; i < out.size_; ++i) {
      Span const old = static_cast<Span*>(memory)[i];
      ::new (static_cast<void*>(static_cast<Other*>(memory) + i)) Other(make(old));
    }
    out.data_.reset(static_cast<Other*>(memory));
    return out;
  }

  /// Compares with another list or any other contiguous one.
  template <class List>
    requires std::convertible_to<List const&, std::span<Span const>>
  [[nodiscard]] bool operator==(List const& other) const noexcept {
    return std::ranges::equal(std::span<Span const>(*this), std::span<Span const>(other));
  }

 private:
  template <class Other>
    requires std::is_trivially_copyable_v<Other> && std::is_trivially_destructible_v<Other>
  friend class SpanList;

  struct Free {
    void operator()(Span* memory) const noexcept { ::operator delete(static_cast<void*>(memory)); }
  };

  void move_to(std::size_t capacity) {
    if (capacity > static_cast<std::size_t>(-1) / sizeof(Span)) throw std::bad_array_new_length();
    // Spans are implicit-lifetime types: memory from operator new holds them without constructors.
    std::unique_ptr<Span, Free> memory(static_cast<Span*>(::operator new(capacity * sizeof(Span))));
    std::copy(begin(), end(), memory.get());
    data_ = std::move(memory);
    capacity_ = capacity;
  }

  std::unique_ptr<Span, Free> data_{};
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace b10::core
