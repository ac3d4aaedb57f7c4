// What a rank brings to a sum of sparse tensors, in a form of fixed length that can be sent, and who disagrees with whom.
// Pure. Must not know: communicators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pycomms::c10d_backend {

struct SparseShape {
  static constexpr int64_t kMaxDims = 64;  // torch's own limit

  int64_t nnz;
  int64_t sparse_dims;
  int64_t dense_dims;
  int64_t type;  // at::ScalarType
  int64_t sizes[kMaxDims];

  static SparseShape of(const at::Tensor& tensor);
  // Whether the two can be added; the number of elements may differ.
  bool fits(const SparseShape& other) const;
  // "float32[4, 3] with 1 sparse dimension"
  std::string describe() const;
};
inline constexpr size_t kSparseShapeWords = sizeof(SparseShape) / sizeof(int64_t);

// By rank: "rank 0 has float32[4] with ...; ranks 1, 2 have float32[5] with ...". Empty when all fit.
std::string differences(const std::vector<SparseShape>& shapes);

}  // namespace pycomms::c10d_backend
