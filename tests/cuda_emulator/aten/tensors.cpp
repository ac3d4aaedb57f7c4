#include "aten/tensors.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>

#include "emulator.h"

namespace cuemu_aten {

at::Tensor shadow_of(const at::Tensor& cuda) {
  const c10::Storage& storage = cuda.storage();
  c10::DataPtr bytes(cuemu_bytes(storage.data()), at::kCPU);
  c10::Storage mapped(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(bytes), /*allocator=*/nullptr,
                      /*resizable=*/false);
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(mapped), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         cuda.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(cuda.sizes(), cuda.strides(), cuda.storage_offset());
  if (cuda.is_conj()) result._set_conj(true);
  if (cuda.is_neg()) result._set_neg(true);
  if (cuda.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return result;
}

// CPU scalars stay: shape functions let them mix with any device, and some read their value.
at::Tensor meta_of(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.dim() == 0) return tensor;
  auto result = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  if (tensor.is_conj()) result._set_conj(true);
  if (tensor.is_neg()) result._set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

at::Tensor empty_like_meta(const at::Tensor& meta, c10::Device device) {
  return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(device));
}

c10::IValue map_tensors(const c10::IValue& value, const TensorFunction& f, c10::Device device) {
  const auto map_one = [&](const at::Tensor& tensor) { return tensor.defined() ? f(tensor) : tensor; };
  if (value.isTensor()) return map_one(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) mapped.push_back(map_one(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor ? std::optional(map_one(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return device;
  if (value.isGenerator() && value.toGenerator().device().is_cuda()) return {};
  return value;
}

void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& f) {
  map_tensors(
      value,
      [&](const at::Tensor& tensor) {
        f(tensor);
        return tensor;
      },
      at::kCPU);
}

}  // namespace cuemu_aten
