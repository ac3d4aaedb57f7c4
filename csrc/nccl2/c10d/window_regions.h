// Tensors and places of one-sided operations: what is wrong with them, and which runs of bytes of a window they stand for.
// Pure functions, any thread. Must not know: windows, engines.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// Throws unless `tensor` is a dense tensor of the window's type, on its device. `name`: what an error calls the argument.
void check_window_tensor(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& window);
// Throws when elements of what is to be written to lie in one place.
void check_written(const char* op, const char* name, const at::Tensor& tensor);
// Throws unless the memory that becomes a window is one block on the CPU or a GPU.
void check_window_memory(const at::Tensor& tensor);
void check_same_length(const char* op, const char* name, size_t have, size_t places);

// Calls add(piece) for each run of bytes that `view`, a view of `window`, covers, in the order of its elements. Throws when it is
// no view of it, or has not as many elements as `other`.
void append_region(const char* op, const char* name, const at::Tensor& window, const at::Tensor& view,
                   const at::Tensor& other, const std::function<void(const hostccl::WindowPiece&)>& add);

// Throws unless the piece is inside the window of `peer`, which has so many bytes.
void check_inside(const char* op, const hostccl::WindowPiece& piece, int peer, uint64_t bytes);

// to.copy_(from), as data: autograd does not hear of it, as it does not of any operation of a backend.
void copy_without_grad(const at::Tensor& to, const at::Tensor& from);

}  // namespace pycomms::c10d_backend
