// The same tensors seen from elsewhere: over the same bytes on the CPU, or without bytes on the meta device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>

namespace cuemu_aten {

// A CPU tensor over the bytes of a CUDA tensor. Like a kernel it keeps nothing alive: memory that is freed too early is
// reused under it.
at::Tensor shadow_of(const at::Tensor& cuda);
at::Tensor meta_of(const at::Tensor& tensor);
at::Tensor empty_like_meta(const at::Tensor& meta, c10::Device device);

// Applies f to every tensor in a value, replaces CUDA devices by `device`, and leaves CUDA generators out.
using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;
c10::IValue map_tensors(const c10::IValue& value, const TensorFunction& f, c10::Device device);
void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& f);

}  // namespace cuemu_aten
