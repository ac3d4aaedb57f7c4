// What every operation asks of its tensors before anything is sent, and their translation into pointers and counts.
// Wrong arguments raise ValueError or TypeError here: no sequence number is consumed and no other rank is harmed.
// Pure functions, any thread. Must not know: communicators.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// A tensor as the engine sees it.
struct Buffer {
  void* data;
  size_t count;  // elements of `type`
  DataType type;
};

// One piece per rank.
struct Pieces {
  c10::SmallVector<void*, 8> data;
  c10::SmallVector<size_t, 8> counts;  // elements of `type`
  DataType type{};
  bool is_even = true;   // all counts are equal
  bool is_block = true;  // they follow each other in one block of memory
};

// For reductions the element type matters; whatever is only moved may travel as bytes.
enum class Use { kReduce, kMove };

// `name` is what an error calls the argument: "input".
Buffer to_buffer(const char* op, const char* name, const at::Tensor& tensor, Use use);

// The single tensor of a one-element list, as c10d passes it.
const at::Tensor& single(const char* op, at::ArrayRef<at::Tensor> tensors);

// `tensors`: one per rank, all of `like`'s type; the memory of no two may overlap when they are written to.
enum class Access { kRead, kWrite };
Pieces to_pieces(const char* op, const char* name, at::ArrayRef<at::Tensor> tensors, const at::Tensor& like, int size,
                 Use use, Access access);

void check_same_type(const char* op, const at::Tensor& a, const at::Tensor& b);
void check_contiguous(const char* op, const at::Tensor& tensor);
void check_rank(const char* op, const char* what, int64_t rank, int size);
// `large` holds `size` times what `small` does.
void check_times(const char* op, const char* large_name, const at::Tensor& large, const char* small_name,
                 const at::Tensor& small, int size);

// Cuts a tensor along dimension 0: `splits` rows per rank, or equal parts when there are none.
Pieces split_rows(const char* op, const char* what, const at::Tensor& tensor, at::ArrayRef<int64_t> splits, int size);

}  // namespace pycomms::c10d_backend
