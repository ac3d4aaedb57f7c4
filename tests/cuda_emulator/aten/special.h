// The ops that the boxed kernel cannot serve.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace cuemu_aten {

// Plain copies are torch's own, through cudaMemcpyAsync. A copy that converts or rearranges is a kernel in torch.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking);
// It draws from a generator that it is not given.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train);

}  // namespace cuemu_aten
