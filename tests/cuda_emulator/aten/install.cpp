// Puts one boxed kernel in the place of nearly every ATen op that is registered for CUDA. It runs the op's CPU kernel on the
// same bytes, in the order of the current stream, so that computation obeys streams, events and capture as on a GPU.
//
// Threads: installed once; the kernels are called from any.

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "aten/call.h"
#include "aten/special.h"

namespace cuemu_aten {
namespace {

// These launch no kernel: torch's own work on the emulated runtime as they are.
constexpr std::string_view kKept[] = {
    "_efficientzerotensor",
    "_local_scalar_dense",
    "_nested_view_from_buffer",
    "_pin_memory",
    "_reshape_alias",
    "alias",
    "as_strided",
    "copy_",
    "empty",
    "empty_strided",
    "is_pinned",
    "is_set_to",
    "native_dropout",
    "record_stream",
    "resize_",
    "set_",
    "unfold",
    "view",
    "view_as_complex",
    "view_as_real",
};

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), op.schema().name(),
                              " has no CPU kernel that the CUDA emulator could run in its place");
  const Call call(op, *stack);
  const c10::DeviceGuard guard(call.device());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (call.queue_in_place(*stack) || call.queue_out(*stack) || call.queue_functional(*stack)) return;
  call.run_now(*stack);
}

// torch warns once that kernels are being replaced, which is what we are here for.
class Silence : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

torch::Library* install() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard silent(&silence);
  constexpr std::string_view kPrefix = "aten::";
  auto library =
      std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (const auto& op : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(c10::DispatchKey::CUDA)) {
    if (!op.name.starts_with(kPrefix)) continue;
    std::string name = op.name.substr(kPrefix.size());
    if (std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept)) continue;
    if (!op.overload_name.empty()) name += "." + op.overload_name;
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
  library->impl("copy_", TORCH_FN(copy_));
  library->impl("native_dropout", TORCH_FN(native_dropout));
  return library.release();  // it stays for the life of the process
}

}  // namespace
}  // namespace cuemu_aten

// Null, or what is wrong.
extern "C" __attribute__((visibility("default"))) const char* cuemu_install_aten() {
  static std::string error;
  try {
    static const torch::Library* const installed = cuemu_aten::install();
    return installed != nullptr ? nullptr : "nothing was installed";
  } catch (const std::exception& failure) {
    error = failure.what();
    return error.c_str();
  }
}
