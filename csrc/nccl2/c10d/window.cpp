#include "nccl2/c10d/window.h"

#include <algorithm>
#include <limits>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {

Error window_error(const Communicator& group, ErrorKind kind, OpKind op, const std::string& what,
                   std::vector<int> ranks) {
  ErrorDetail detail;
  detail.kind = kind;
  detail.ranks = std::move(ranks);
  detail.op = traits(op).name;
  detail.group = group.group();
  detail.rank = group.rank();
  detail.message = "rank " + std::to_string(detail.rank) + " of group " + detail.group + ": " + detail.op + ": " + what;
  return Error(std::move(detail));
}

TensorWindow::TensorWindow(std::shared_ptr<Communicator> group, at::Tensor local, int slots, Generation generation)
    : group_(std::move(group)),
      local_(local.detach()),
      type_(to_data_type(local_.scalar_type())),
      item_(local_.element_size()),
      slots_(slots),
      generation_(std::move(generation)),
      memory_(local_.const_data_ptr()) {}

int64_t TensorWindow::timeout_of(const How& how) const {
  if (!how.timeout) return group_->timeout();
  TORCH_CHECK_VALUE(how.timeout->count() >= 0, "timeout is ", how.timeout->count(), " ms, expected at least 0");
  return std::min<int64_t>(how.timeout->count(), kForever / kMillisecond) * kMillisecond;
}

void TensorWindow::check_current(OpKind kind) const {
  const bool has_moved = local_.const_data_ptr() != memory_;
  if (!is_stale() && !has_moved) [[likely]]
    return;
  if (has_moved && !is_closed()) {
    throw_value_error(
        traits(kind).name,
        "the tensor of the window has been given other memory since the window was made, as share_memory_() or a "
        "queue of torch.multiprocessing does, and the other ranks reach the old one: make the window anew, after "
        "share_memory_()");
  }
  if (!is_stale()) return;  // and closed, which the call itself says
  throw_error(window_error(*group_, ErrorKind::kRevoked, kind,
                           "the window belongs to generation " + std::to_string(generation_.mine) +
                               " of the group, which has been regrouped and is at generation " +
                               std::to_string(generation_.now->load(std::memory_order_acquire)) +
                               ": reopen() makes the window anew"));
}

int TensorWindow::checked_peer(OpKind kind, int peer) const {
  if (peer >= 0 && peer < size()) [[likely]]
    return peer;
  throw_value_error(traits(kind).name,
                    "peer is " + std::to_string(peer) + ", but the group has ranks 0 to " + std::to_string(size() - 1));
}

// What no window is large enough for must not come round to a place inside.
uint64_t TensorWindow::bytes_before(OpKind kind, const char* name, int64_t offset) const {
  const auto largest = static_cast<int64_t>(std::numeric_limits<int64_t>::max() / item_);
  if (offset >= 0 && offset <= largest) [[likely]]
    return static_cast<uint64_t>(offset) * item_;
  throw_value_error(traits(kind).name,
                    std::string(name) + " is " + std::to_string(offset) + ", expected 0 to " + std::to_string(largest));
}

std::vector<int64_t> TensorWindow::shape_of(uint64_t bytes) const {
  const auto elements = static_cast<int64_t>(bytes / item_);
  return elements == local_.numel() ? local_.sizes().vec() : std::vector{elements};
}

// --- What a window on a GPU does not do

void TensorWindow::cannot(const char* what) const {
  throw c10::NotImplementedError(std::string("nccl2 ") + what + ": the window is on " + local_.device().str() +
                                     ", and NCCL has no such operation; windows on the CPU do",
                                 nullptr);
}

TensorWindow::WorkPtr TensorWindow::get(const at::Tensor&, int, const Place&, const How&) { cannot("get"); }
TensorWindow::WorkPtr TensorWindow::put_v(const std::vector<at::Tensor>&, int, const std::vector<Place>&,
                                          std::optional<int>, const How&) {
  cannot("put_v");
}
TensorWindow::WorkPtr TensorWindow::get_v(const std::vector<at::Tensor>&, int, const std::vector<Place>&, const How&) {
  cannot("get_v");
}
TensorWindow::WorkPtr TensorWindow::update(const at::Tensor&, int, const Place&, hostccl::WindowOp,
                                           const at::Tensor& old, const How&) {
  cannot(traits(kind_of_update(old)).name);
}
void TensorWindow::update_one(const void*, int, int64_t, hostccl::WindowOp op, void*, const How&) {
  cannot(traits(kind_of_update(op)).name);
}
void TensorWindow::compare_swap(const void*, const void*, int, int64_t, void*, const How&) { cannot("compare_swap"); }
TensorWindow::WorkPtr TensorWindow::flush(std::optional<int>, const How&) { cannot("flush"); }
int64_t TensorWindow::read_signal(int, int) { cannot("read_signal"); }
int TensorWindow::lock(int, bool, const How&) { cannot("lock"); }
void TensorWindow::unlock(int, bool, const How&) { cannot("unlock"); }
void TensorWindow::wait_for_queued(OpKind, const How&) {}

}  // namespace pycomms::c10d_backend
