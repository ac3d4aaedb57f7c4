#include "aten/special.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include "aten/queue.h"
#include "aten/random.h"
#include "aten/tensors.h"

namespace cuemu_aten {
namespace {

bool is_plain_copy(const at::Tensor& to, const at::Tensor& from) {
  const bool converts = to.dtype() != from.dtype() || to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg();
  if (converts || to.sizes() != from.sizes()) return false;
  return (to.is_contiguous() && from.is_contiguous()) ||
         (to.strides() == from.strides() && to.is_non_overlapping_and_dense());
}

}  // namespace

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.numel() == 0 || is_plain_copy(self, source)) return at::native::copy_(self, source, non_blocking);
  const c10::DeviceGuard guard(self.is_cuda() ? self.device() : source.device());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Queue queue(self.is_cuda() ? self.device() : source.device());
  if (self.is_cuda() && source.is_cuda()) {
    TORCH_CHECK(self.device() == source.device(), "a converting copy between devices is not emulated");
    queue.add("aten::copy_", [to = shadow_of(self), from = shadow_of(source)] { to.copy_(from); });
    return self;
  }
  queue.drain();
  const at::Tensor to = self.is_cuda() ? shadow_of(self) : self;
  to.copy_(source.is_cuda() ? shadow_of(source) : source);
  return self;
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  const c10::DeviceGuard guard(input.device());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Queue queue(input.device());
  auto output = at::empty_like(input);
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (input.numel() == 0) return {output, mask};
  const double keep = train.value_or(true) ? 1 - p : 1;
  auto generator = generator_for_one_op(std::nullopt, input.device(), queue.is_capturing());
  queue.add("aten::native_dropout",
            [keep, generator, in = shadow_of(input), out = shadow_of(output), kept = shadow_of(mask)] {
              kept.bernoulli_(keep, generator);
              out.copy_(keep == 0 ? in.mul(0) : in.mul(kept).mul_(1 / keep));
            });
  return {output, mask};
}

}  // namespace cuemu_aten
