#include "nccl2/c10d/tensor_checks.h"

#include <algorithm>
#include <sstream>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/nccl_types.h"

namespace pycomms::c10d_backend {
namespace {

void refuse_device(const char* op, const at::Tensor& tensor) {
  std::ostringstream text;
  text << "nccl2 " << op << ": got a tensor on " << tensor.device()
       << "; tensors must be on the CPU or on a CUDA device";
  throw c10::NotImplementedError(text.str(), nullptr);
}

void check_kind(const char* op, const at::Tensor& tensor) {
  if (!tensor.defined()) throw_value_error(op, "undefined tensor");
  if (tensor.layout() != at::kStrided) {
    throw_value_error(op, "tensors must be dense (only all_reduce takes sparse ones)");
  }
  if (!tensor.is_cpu() && !tensor.is_cuda()) refuse_device(op, tensor);
  if (tensor.is_conj() || tensor.is_neg()) {
    throw_value_error(op, "the tensor is a lazy conjugate or negation; call resolve_conj() or resolve_neg() first");
  }
}

// A view may reach past the end of a storage that was made smaller under it. The elements of the tensors that we take
// follow each other without gaps.
void check_storage(const char* op, const char* name, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const size_t given = tensor.storage().nbytes();
  const size_t needed = static_cast<size_t>(tensor.storage_offset() + tensor.numel()) * tensor.element_size();
  if (given >= needed) [[likely]]
    return;
  throw_value_error(op, std::string("argument '") + name + "' reaches past the end of its storage: it needs " +
                            std::to_string(needed) + " bytes and the storage has " + std::to_string(given) +
                            " (was the storage resized?)");
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

// A type that the engine has no name for travels as bytes.
Unit unit_of(const char* op, const at::Tensor& tensor, Use use) {
  if (tensor.is_cuda()) {
    const at::ScalarType type = tensor.scalar_type();
    return use == Use::kReduce ? to_nccl_reduced(op, type) : to_nccl_moved(type);
  }
  const DataType type = to_data_type(tensor.scalar_type());
  if (type != kNoType) [[likely]]
    return {type, 1};
  if (use == Use::kReduce) throw_type_error(op, std::string("cannot reduce ") + c10::toString(tensor.scalar_type()));
  return {nccl_abi::kUint8, static_cast<size_t>(tensor.element_size())};
}

void check_disjoint(const char* op, at::ArrayRef<at::Tensor> tensors) {
  struct Span {
    const char* begin;
    const char* end;
    size_t slot;
  };
  c10::SmallVector<Span, 8> spans;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* begin = static_cast<const char*>(tensors[i].const_data_ptr());
    if (tensors[i].numel() > 0) spans.push_back({begin, begin + tensors[i].nbytes(), i});
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].begin < spans[i - 1].end) {
      const auto [low, high] = std::minmax(spans[i - 1].slot, spans[i].slot);
      throw_value_error(op, "output tensors " + std::to_string(low) + " and " + std::to_string(high) +
                                " share memory; every rank's output needs its own");
    }
  }
}

void add_piece(Pieces& pieces, void* data, size_t count, size_t bytes_per_count) {
  if (!pieces.data.empty()) {
    pieces.is_even = pieces.is_even && count == pieces.counts.front();
    const auto* end = static_cast<const char*>(pieces.data.back()) + pieces.counts.back() * bytes_per_count;
    pieces.is_block = pieces.is_block && data == end;
  }
  pieces.data.push_back(data);
  pieces.counts.push_back(count);
}

}  // namespace

Buffer to_buffer(const char* op, const char* name, const at::Tensor& tensor, Use use) {
  check_kind(op, tensor);
  if (!tensor.is_contiguous() && !tensor.is_non_overlapping_and_dense()) {
    throw_value_error(op, "Tensors must be contiguous");
  }
  check_storage(op, name, tensor);
  const Unit unit = unit_of(op, tensor, use);
  return {tensor.data_ptr(), static_cast<size_t>(tensor.numel()) * unit.per_element, unit.type};
}

const at::Tensor& single(const char* op, at::ArrayRef<at::Tensor> tensors) {
  if (tensors.size() != 1) [[unlikely]] {
    throw_value_error(op, "takes one tensor per call, got " + std::to_string(tensors.size()));
  }
  return tensors[0];
}

Pieces to_pieces(const char* op, const char* name, at::ArrayRef<at::Tensor> tensors, const at::Tensor& like, int size,
                 Use use, Access access) {
  if (tensors.size() != static_cast<size_t>(size)) {
    throw_value_error(op, "needs one tensor per rank: got a list of " + std::to_string(tensors.size()) + " for " +
                              std::to_string(size) + " ranks");
  }
  const Unit unit = unit_of(op, like, use);
  Pieces pieces;
  pieces.type = unit.type;
  for (const at::Tensor& tensor : tensors) {
    check_kind(op, tensor);
    check_same_type(op, tensor, like);
    // Elements travel in memory order: another order on the other side would permute them.
    const bool same_order = tensor.is_contiguous()
                                ? like.is_contiguous()
                                : tensor.is_non_overlapping_and_dense() && tensor.strides() == like.strides();
    if (!same_order) throw_value_error(op, "Tensors must be contiguous");
    check_storage(op, name, tensor);
    add_piece(pieces, tensor.data_ptr(), static_cast<size_t>(tensor.numel()) * unit.per_element,
              tensor.element_size() / unit.per_element);
  }
  if (access == Access::kWrite) check_disjoint(op, tensors);
  return pieces;
}

void check_same_type(const char* op, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) [[likely]]
    return;
  throw_type_error(op, std::string("all tensors must have the same type, got ") + c10::toString(a.scalar_type()) +
                           " and " + c10::toString(b.scalar_type()));
}

void check_contiguous(const char* op, const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) throw_value_error(op, "Tensors must be contiguous");
}

void check_rank(const char* op, const char* what, int64_t rank, int size) {
  if (rank >= 0 && rank < size) [[likely]]
    return;
  throw_value_error(op, std::string("invalid ") + what + " rank: " + std::to_string(rank) + " is not in [0, " +
                            std::to_string(size) + ")");
}

void check_times(const char* op, const char* large_name, const at::Tensor& large, const char* small_name,
                 const at::Tensor& small, int size) {
  check_same_type(op, large, small);
  if (large.numel() == small.numel() * size) [[likely]]
    return;
  throw_value_error(op, std::string(large_name) + " tensor size must be equal to world_size times " + small_name +
                            " tensor size: got shapes " + shape_of(large) + " and " + shape_of(small) + " for " +
                            std::to_string(size) + " ranks");
}

Pieces split_rows(const char* op, const char* what, const at::Tensor& tensor, at::ArrayRef<int64_t> splits, int size) {
  check_kind(op, tensor);
  check_contiguous(op, tensor);
  check_storage(op, what, tensor);
  if (tensor.dim() == 0) throw_value_error(op, std::string(what) + " tensor has no dimension 0 to split");
  const Unit unit = unit_of(op, tensor, Use::kMove);
  const int64_t rows = tensor.size(0);
  const size_t row = rows == 0 ? 0 : static_cast<size_t>(tensor.numel() / rows) * unit.per_element;
  if (splits.empty() && rows % size != 0) {
    throw_value_error(op, std::string("dimension 0 of the ") + what + " tensor, " + std::to_string(rows) +
                              ", does not divide equally across " + std::to_string(size) + " ranks");
  }
  if (!splits.empty()) {
    if (splits.size() != static_cast<size_t>(size)) {
      throw_value_error(op, std::string("got ") + std::to_string(splits.size()) + " " + what + " splits for " +
                                std::to_string(size) + " ranks");
    }
    int64_t sum = 0;
    for (const int64_t split : splits) {
      if (split < 0) throw_value_error(op, std::string("negative ") + what + " split");
      sum += split;
    }
    if (sum != rows) {
      throw_value_error(op, std::string("the ") + what + " splits do not add up to dimension 0 of the tensor: " +
                                std::to_string(sum) + " and " + std::to_string(rows));
    }
  }

  Pieces pieces;
  pieces.type = unit.type;
  const size_t bytes_per_count = tensor.element_size() / unit.per_element;
  auto* at = static_cast<char*>(tensor.data_ptr());
  for (int rank = 0; rank < size; ++rank) {
    const size_t count = static_cast<size_t>(splits.empty() ? rows / size : splits[rank]) * row;
    add_piece(pieces, at, count, bytes_per_count);
    at += count * bytes_per_count;
  }
  return pieces;
}

}  // namespace pycomms::c10d_backend
