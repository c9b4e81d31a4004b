#include <b10/device/copy_spans.cuh>

namespace b10::device {

cudaError_t Linked::gather(Layout const& layout, std::byte* to, Reach reach,
                           cudaStream_t stream) noexcept {
  return Inline::gather(layout, to, reach, stream);
}

cudaError_t Linked::scatter(std::byte const* from, Layout const& layout, Reach reach,
                            cudaStream_t stream) noexcept {
  return Inline::scatter(from, layout, reach, stream);
}

cudaError_t Linked::digest(std::byte const* from, std::uint64_t bytes, std::uint64_t first_word,
                           std::uint64_t* partials, cudaStream_t stream) noexcept {
  return Inline::digest(from, bytes, first_word, partials, stream);
}

}  // namespace b10::device
