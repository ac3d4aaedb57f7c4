#include "nccl2/c10d/value_check.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>

#include <limits>
#include <optional>
#include <sstream>

namespace pycomms::c10d_backend {
namespace {

// What is found in a tensor, as one byte.
constexpr uint8_t kNanFound = 1;
constexpr uint8_t kInfinityFound = 2;

// float8 has no arithmetic in ATen: the bits without the sign tell.
struct Float8Limits {
  int64_t infinity;  // one that no bits make where the format has none
  int64_t nan;       // the smallest
};

std::optional<Float8Limits> float8_limits(at::ScalarType type) {
  if (type == at::kFloat8_e4m3fn) return Float8Limits{0x80, 0x7f};
  if (type == at::kFloat8_e5m2) return Float8Limits{0x7c, 0x7d};
  return std::nullopt;
}

bool can_hold_any(const at::Tensor& tensor) {
  const at::ScalarType type = c10::toRealValueType(tensor.scalar_type());
  const bool is_float = type == at::kHalf || type == at::kBFloat16 || type == at::kFloat || type == at::kDouble;
  return tensor.numel() != 0 && (is_float || float8_limits(type).has_value());
}

at::Tensor as_byte(NanCheck check, const at::Tensor& nan, const at::Tensor& infinity) {
  const at::Tensor found = nan.to(at::kByte);
  return check == NanCheck::kNan ? found : found.add_(infinity.to(at::kByte), static_cast<int64_t>(kInfinityFound));
}

// One element. No copy of the tensor is made but of float8: the smallest and the largest number are NaN if any number is.
at::Tensor look_at(const at::Tensor& tensor, NanCheck check) {
  if (const auto limits = float8_limits(tensor.scalar_type())) {
    const at::Tensor largest = tensor.view(at::kByte).bitwise_and(0x7f).amax();
    return as_byte(check, largest.ge(limits->nan), largest.eq(limits->infinity));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto [smallest, largest] = at::aminmax(tensor.is_complex() ? at::view_as_real(tensor) : tensor);
  return as_byte(check, largest.ne(largest), largest.eq(kInfinity).logical_or_(smallest.eq(-kInfinity)));
}

// "tensor 2 of 4 of its input, Float of shape [3, 5]"
std::string name_of(OpKind kind, at::ArrayRef<at::Tensor> tensors, size_t place) {
  std::ostringstream text;
  if (tensors.size() > 1) text << "tensor " << place << " of " << tensors.size() << " of ";
  text << (is_receive(kind) ? "what it received, " : "its input, ") << c10::toString(tensors[place].scalar_type())
       << " of shape " << tensors[place].sizes();
  return text.str();
}

Error found_in(const CheckedOp& op, uint64_t sequence, const std::string& name, uint8_t found,
               const char* consequence) {
  ErrorDetail detail;
  detail.kind = ErrorKind::kNotFinite;
  detail.op = traits(op.kind).name;
  detail.sequence = is_point_to_point(op.kind) ? 0 : sequence;
  detail.group = op.group;
  detail.rank = op.rank;
  detail.ranks = {op.rank};
  detail.message = "rank " + std::to_string(op.rank) + " of group " + op.group + ": " + detail.op;
  if (detail.sequence != 0) detail.message += " #" + std::to_string(detail.sequence);
  detail.message += ": " + name + ", holds " + (found == kNanFound ? "NaN" : "an infinity") + consequence;
  return Error(std::move(detail));
}

}  // namespace

Error check_values(const CheckedOp& op, uint64_t sequence, at::ArrayRef<at::Tensor> tensors, const char* consequence) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t place = 0; place < tensors.size(); ++place) {
    if (!can_hold_any(tensors[place])) continue;
    const auto found = look_at(tensors[place], op.check).item<uint8_t>();
    if (found != 0) return found_in(op, sequence, name_of(op.kind, tensors, place), found, consequence);
  }
  return {};
}

void DeviceValueCheck::look() {
  std::vector<at::Tensor> each;
  for (size_t place = 0; place < tensors_.size(); ++place) {
    if (!can_hold_any(tensors_[place])) continue;
    each.push_back(look_at(tensors_[place], op_.check));
    names_.push_back(name_of(op_.kind, tensors_, place));
  }
  tensors_.clear();
  if (each.empty()) return;
  found_ = at::empty({static_cast<int64_t>(each.size())}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  found_.copy_(at::stack(each), /*non_blocking=*/true);
}

Error DeviceValueCheck::verdict(uint64_t sequence) const {
  const char* consequence = is_receive(op_.kind) ? "" : "; it has been sent";
  for (size_t i = 0; i < names_.size(); ++i) {
    const uint8_t found = found_.const_data_ptr<uint8_t>()[i];
    if (found != 0) return found_in(op_, sequence, names_[i], found, consequence);
  }
  return {};
}

void ValueReports::add(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = error;
}

Error ValueReports::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(first_, {});
}

void ValueReports::told(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (first_ && &first_.detail() == &error.detail()) first_ = {};
}

}  // namespace pycomms::c10d_backend
