#include "nccl2/c10d/sparse_shape.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <utility>

#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {

SparseShape SparseShape::of(const at::Tensor& tensor) {
  SparseShape shape{};
  shape.nnz = tensor._nnz();
  shape.sparse_dims = tensor.sparse_dim();
  shape.dense_dims = tensor.dense_dim();
  shape.type = static_cast<int64_t>(tensor.scalar_type());
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.sizes);
  return shape;
}

bool SparseShape::fits(const SparseShape& other) const {
  return sparse_dims == other.sparse_dims && dense_dims == other.dense_dims && type == other.type &&
         std::equal(sizes, sizes + kMaxDims, other.sizes);
}

std::string SparseShape::describe() const {
  std::string text(c10::getDtypeNames(static_cast<at::ScalarType>(type)).first);
  text += "[";
  for (int64_t i = 0; i < sparse_dims + dense_dims; ++i) text += (i != 0 ? ", " : "") + std::to_string(sizes[i]);
  text += "] with " + std::to_string(sparse_dims) + " sparse dimension";
  return sparse_dims == 1 ? text : text + "s";
}

std::string differences(const std::vector<SparseShape>& shapes) {
  std::vector<std::pair<const SparseShape*, std::vector<int>>> sides;
  for (size_t rank = 0; rank < shapes.size(); ++rank) {
    auto same = std::find_if(sides.begin(), sides.end(), [&](const auto& s) { return s.first->fits(shapes[rank]); });
    if (same == sides.end()) same = sides.insert(sides.end(), {&shapes[rank], {}});
    same->second.push_back(static_cast<int>(rank));
  }
  if (sides.size() == 1) return {};
  std::string text;
  for (const auto& [shape, ranks] : sides) {
    text +=
        (text.empty() ? "" : "; ") + rank_list(ranks) + (ranks.size() == 1 ? " has " : " have ") + shape->describe();
  }
  return text;
}

}  // namespace pycomms::c10d_backend
