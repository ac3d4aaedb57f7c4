#include "nccl2/c10d/window_regions.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>

#include <sstream>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

[[noreturn]] void throw_not_dense(const char* op, const char* name, const at::Tensor& tensor) {
  std::ostringstream layout;
  layout << tensor.layout();
  throw_value_error(op, std::string(name) + " is not dense: its layout is " + layout.str() +
                            ", expected Strided: call to_dense() first");
}

}  // namespace

void check_window_tensor(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& window) {
  if (!tensor.defined()) throw_type_error(op, std::string(name) + " is no tensor");
  if (tensor.scalar_type() != window.scalar_type()) {
    throw_type_error(op, std::string(name) + " has dtype " + c10::toString(tensor.scalar_type()) +
                             ", but the window holds " + c10::toString(window.scalar_type()));
  }
  if (tensor.device() != window.device()) {
    throw_value_error(
        op, std::string(name) + " is on " + tensor.device().str() + ", but the window is on " + window.device().str());
  }
  if (tensor.layout() != at::kStrided) [[unlikely]]
    throw_not_dense(op, name, tensor);
  if (tensor.is_conj() || tensor.is_neg()) {
    throw_value_error(
        op, std::string(name) + " is a lazy conjugate or negation; call resolve_conj() or resolve_neg() first");
  }
}

void check_written(const char* op, const char* name, const at::Tensor& tensor) {
  if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) [[likely]]
    return;
  throw_value_error(op, std::string(name) + " has elements that lie in one place: call clone() first");
}

void check_window_memory(const at::Tensor& tensor) {
  constexpr char kOp[] = "window";
  if (!tensor.defined()) throw_type_error(kOp, "memory is no tensor");
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) {
    throw_value_error(kOp, "memory is on " + tensor.device().str() + ", expected the CPU or a GPU");
  }
  if (tensor.layout() != at::kStrided) throw_not_dense(kOp, "memory", tensor);
  if (!tensor.is_contiguous()) {
    throw_value_error(kOp, "memory has sizes " + shape_text(tensor.sizes()) + " and strides " +
                               shape_text(tensor.strides()) +
                               ", expected one block of memory: call contiguous() first");
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    throw_value_error(kOp, "memory is a lazy conjugate or negation; call resolve_conj() or resolve_neg() first");
  }
}

void check_same_length(const char* op, const char* name, size_t have, size_t places) {
  if (have == places) return;
  throw_value_error(op, std::string(name) + " has " + std::to_string(have) + " tensors, but offsets " +
                            std::to_string(places) + " places");
}

void append_region(const char* op, const char* name, const at::Tensor& window, const at::Tensor& view,
                   const at::Tensor& other, const std::function<void(const hostccl::WindowPiece&)>& add) {
  if (!view.defined() || !view.is_alias_of(window) || view.scalar_type() != window.scalar_type()) {
    throw_value_error(op, std::string(name) + " is a tensor that is no view of the window's local tensor");
  }
  if (view.is_conj() || view.is_neg()) throw_value_error(op, std::string(name) + " is a lazy conjugate or negation");
  if (view.sizes() != other.sizes()) {
    throw_value_error(op, std::string(name) + " is a place in the window with sizes " + shape_text(view.sizes()) +
                              ", but the tensor has sizes " + shape_text(other.sizes()));
  }
  const int64_t begin = view.storage_offset() - window.storage_offset();
  if (begin < 0) throw_value_error(op, std::string(name) + " is a view that begins before the window");
  // Dimensions that follow each other without a gap are one.
  std::vector<int64_t> sizes, strides;
  for (int64_t d = 0; d < view.dim(); ++d) {
    if (view.size(d) == 0) return;
    if (view.size(d) == 1) continue;
    if (view.stride(d) <= 0)
      throw_value_error(op, std::string(name) + " is a view with elements that lie in one place");
    if (!sizes.empty() && strides.back() == view.size(d) * view.stride(d)) {
      sizes.back() *= view.size(d);
      strides.back() = view.stride(d);
    } else {
      sizes.push_back(view.size(d));
      strides.push_back(view.stride(d));
    }
  }
  const auto item = static_cast<int64_t>(view.element_size());
  int64_t run = 1;
  if (!strides.empty() && strides.back() == 1) {
    run = sizes.back();
    sizes.pop_back();
    strides.pop_back();
  }
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t at = begin;;) {
    add({static_cast<uint64_t>(at * item), static_cast<uint64_t>(run * item)});
    size_t d = sizes.size();
    for (; d > 0; --d) {
      at += strides[d - 1];
      if (++index[d - 1] < sizes[d - 1]) break;
      at -= strides[d - 1] * sizes[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void check_inside(const char* op, const hostccl::WindowPiece& piece, int peer, uint64_t bytes) {
  if (piece.offset <= bytes && piece.bytes <= bytes - piece.offset) return;
  throw_value_error(op, "the window of rank " + std::to_string(peer) + ": " + std::to_string(piece.bytes) +
                            " bytes at offset " + std::to_string(piece.offset) + " are not inside its " +
                            std::to_string(bytes) + " bytes");
}

void copy_without_grad(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard guard;
  to.detach().copy_(from);
}

}  // namespace pycomms::c10d_backend
