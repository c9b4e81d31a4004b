#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <ucp/api/ucp.h>

#include <b10/operation.hpp>
#include <b10/types.hpp>

namespace b10::transport::ucx {

/// Lies in front of every UCX request and links the pending ones of a worker, so that they can be
/// let go of, all together, before the worker is destroyed. Not linked: all null.
struct RequestNode {
  RequestNode* next = nullptr;
  RequestNode* previous = nullptr;
  Operation* operation = nullptr;
  bool receive = false;

  static void init(void* request) { new (request) RequestNode{}; }
  [[nodiscard]] bool linked() const noexcept { return next != nullptr; }
  void unlink() noexcept {
    previous->next = next;
    next->previous = previous;
    *this = RequestNode{};
  }
};

/// The pending requests of one worker, a ring with the list itself as its anchor.
class PendingRequests {
 public:
  PendingRequests() noexcept { anchor_.next = anchor_.previous = &anchor_; }
  PendingRequests(PendingRequests const&) = delete;
  PendingRequests& operator=(PendingRequests const&) = delete;

  void add(RequestNode& node, Operation& operation, bool receive) noexcept {
    node.operation = &operation;
    node.receive = receive;
    node.next = &anchor_;
    node.previous = anchor_.previous;
    anchor_.previous->next = &node;
    anchor_.previous = &node;
    operation.handle = &node;
  }
  /// Ends nothing: from now on the callbacks of these requests touch no Operation.
  void let_go() noexcept {
    for (auto* n = anchor_.next; n != &anchor_; n = n->next) n->operation = nullptr;
  }
  [[nodiscard]] RequestNode* first() noexcept {
    return anchor_.next == &anchor_ ? nullptr : anchor_.next;
  }
  template <class F>
  void for_each(F f) {
    for (auto* n = anchor_.next; n != &anchor_;) {
      auto* const following = n->next;  // f may end n, and only n
      f(*n);
      n = following;
    }
  }

 private:
  RequestNode anchor_{};
};

[[nodiscard]] inline OperationStatus to_operation_status(ucs_status_t s) noexcept {
  switch (s) {
    case UCS_OK:
      return OperationStatus::ok;
    case UCS_ERR_MESSAGE_TRUNCATED:
      return OperationStatus::truncated;
    case UCS_ERR_CANCELED:
      return OperationStatus::cancelled;
    default:
      return OperationStatus::failed;
  }
}

/// Records the end; nothing else happens inside a UCX callback.
inline void finish(Operation& op, ucs_status_t status, std::uint64_t bytes, Tag tag) noexcept {
  op.handle = nullptr;
  if (status == UCS_OK) {
    op.complete(OperationStatus::ok, bytes, tag);
  } else {
    op.complete(to_operation_status(status), bytes, tag, ucs_status_string(status));
  }
}

/// Takes a request off the list and frees it; the Operation it belongs to, null if it was let go
/// of. A request that ends inside its own post is not linked yet: then `posting` is the Operation,
/// and the post frees the request.
inline Operation* take(void* request, void* posting) noexcept {
  auto& node = *static_cast<RequestNode*>(request);
  if (!node.linked()) return static_cast<Operation*>(posting);
  auto* const op = node.operation;
  node.unlink();
  ucp_request_free(request);
  return op;
}

inline void on_sent(void* request, ucs_status_t status, void* posting) {
  if (auto* const op = take(request, posting)) finish(*op, status, 0, op->tag());
}

inline void on_received(void* request, ucs_status_t status, ucp_tag_recv_info_t const* info,
                        void* posting) {
  bool const known = info && (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED);
  auto const told = known ? *info : ucp_tag_recv_info_t{};  // lies in the request
  if (auto* const op = take(request, posting)) {
    finish(*op, status, told.length, known ? Tag{told.sender_tag} : op->tag());
  }
}

inline void on_sunk(void* request, ucs_status_t, ucp_tag_recv_info_t const*, void*) {
  ucp_request_free(request);
}

/// Common part of every post. The memory is host memory: saying so spares a query per operation.
[[nodiscard]] inline ucp_request_param_t post_params(void* user_data) noexcept {
  ucp_request_param_t p{};
  p.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  p.user_data = user_data;
  p.memory_type = UCS_MEMORY_TYPE_HOST;
  return p;
}

}  // namespace b10::transport::ucx
