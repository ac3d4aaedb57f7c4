#include "aten/call.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "aten/random.h"
#include "aten/tensors.h"

namespace cuemu_aten {
namespace {

using torch::jit::Stack;

Stack take(Stack& stack, size_t count) {
  Stack taken(std::make_move_iterator(stack.end() - count), std::make_move_iterator(stack.end()));
  torch::jit::drop(stack, count);
  return taken;
}

// Ops that take indices on the CPU beside data on the GPU.
bool may_mix_devices(std::string_view name) {
  static constexpr std::string_view kNames[] = {"aten::index", "aten::index_put_", "aten::index_put",
                                                "aten::_index_put_impl_", "aten::_unsafe_index"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool is_generator(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()));
}

at::Tensor shadow_or_same(const at::Tensor& tensor) { return tensor.is_cuda() ? shadow_of(tensor) : tensor; }

}  // namespace

Call::Call(const c10::OperatorHandle& op, Stack& stack)
    : op_(op),
      schema_(op.schema()),
      inputs_(take(stack, op.schema().arguments().size())),
      device_(find_device(op.schema(), inputs_)),
      queue_(device_) {}

c10::Device Call::find_device(const c10::FunctionSchema& schema, const Stack& inputs) {
  std::optional<c10::Device> device;
  const bool mixed = may_mix_devices(schema.name());
  const auto see = [&](const at::Tensor& tensor) {
    if (tensor.is_cuda()) {
      if (!device) device = tensor.device();
      TORCH_CHECK(mixed || *device == tensor.device(), "Expected all tensors to be on the same device, but got ",
                  *device, " and ", tensor.device(), " in ", schema.name());
    } else {
      TORCH_CHECK(mixed || tensor.dim() == 0 || !tensor.is_cpu(),
                  "Expected all tensors to be on the same device, but found a CPU tensor in ", schema.name());
    }
  };
  for (const auto& value : inputs) each_tensor(value, see);
  for (const auto& value : inputs) {
    if (!device && value.isDevice() && value.toDevice().is_cuda()) device = value.toDevice();
  }
  if (device && device->has_index()) return *device;
  return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
}

bool Call::is_written(size_t argument) const {
  const auto* alias = schema_.arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

int Call::source_of_result(size_t result) const {
  const auto* alias = schema_.returns()[result].alias_info();
  if (alias == nullptr || !alias->isWrite()) return -1;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_written(i) && schema_.arguments()[i].alias_info()->beforeSets() == alias->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool Call::returns_only_new_tensors() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_written(i)) return false;
  }
  const auto& results = schema_.returns();
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const c10::Argument& result) {
    return result.type()->kind() == c10::TypeKind::TensorType ||
           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

std::optional<Stack> Call::run_meta(Stack inputs) const {
  if (!op_.hasKernelForDispatchKey(c10::DispatchKey::Meta) &&
      !op_.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) {
    return std::nullopt;
  }
  try {
    op_.callBoxed(&inputs);
  } catch (const std::exception&) {
    return std::nullopt;  // the real call, which follows, says what is wrong
  }
  return inputs;
}

Stack Call::meta_inputs() const {
  Stack inputs;
  for (const auto& value : inputs_) inputs.push_back(map_tensors(value, meta_of, at::kMeta));
  return inputs;
}

Stack Call::queued_inputs() const {
  const auto keep = [](const at::Tensor& tensor) { return tensor.is_cuda() ? shadow_of(tensor) : tensor.clone(); };
  Stack inputs;
  for (const auto& value : inputs_) inputs.push_back(map_tensors(value, keep, at::kCPU));
  substitute_generator(inputs);
  return inputs;
}

void Call::substitute_generator(Stack& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_generator(schema_.arguments()[i])) continue;
    const auto given = inputs_[i].isNone() ? std::nullopt : std::optional(inputs_[i].toGenerator());
    inputs[i] = generator_for_one_op(given, device_, queue_.is_capturing());
  }
}

void Call::push_aliases(Stack& stack) const {
  for (size_t i = 0; i < schema_.returns().size(); ++i) stack.push_back(inputs_[source_of_result(i)]);
}

bool Call::queue_in_place(Stack& stack) const {
  bool writes = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (schema_.arguments()[i].is_out()) return false;
    writes |= is_written(i);
  }
  for (size_t i = 0; i < schema_.returns().size(); ++i) {
    if (source_of_result(i) < 0) return false;
  }
  if (!writes) return false;
  queue_.add(name(), [op = op_, inputs = queued_inputs()] {
    Stack mine = inputs;
    op.callBoxed(&mine);
  });
  push_aliases(stack);
  return true;
}

bool Call::queue_out(Stack& stack) const {
  bool has_out = false;
  for (const auto& argument : schema_.arguments()) has_out |= argument.is_out();
  if (!has_out) return false;
  Stack meta = meta_inputs();
  if (!run_meta(meta)) return false;  // resizes the meta tensors, which `meta` shares with the call
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!schema_.arguments()[i].is_out()) continue;
    std::vector<at::Tensor> real, wanted;
    each_tensor(inputs_[i], [&](const at::Tensor& tensor) { real.push_back(tensor); });
    each_tensor(meta[i], [&](const at::Tensor& tensor) { wanted.push_back(tensor); });
    for (size_t k = 0; k < real.size(); ++k) {
      if (real[k].sizes() != wanted[k].sizes()) real[k].resize_(wanted[k].sizes());
    }
  }
  queue_.add(name(), [op = op_, inputs = queued_inputs()] {
    Stack mine = inputs;
    op.callBoxed(&mine);
  });
  push_aliases(stack);
  return true;
}

bool Call::queue_functional(Stack& stack) const {
  if (!returns_only_new_tensors()) return false;
  const auto meta = run_meta(meta_inputs());
  if (!meta) return false;
  Stack results;
  std::vector<at::Tensor> targets;  // undefined where the kernel gives nothing to copy
  for (const auto& value : *meta) {
    results.push_back(map_tensors(
        value,
        [&](const at::Tensor& tensor) {
          auto result = empty_like_meta(tensor, device_);
          targets.push_back(result.numel() == 0 ? at::Tensor() : shadow_of(result));
          return result;
        },
        device_));
  }
  queue_.add(name(), [op = op_, inputs = queued_inputs(), targets] {
    Stack mine = inputs;
    op.callBoxed(&mine);
    size_t next = 0;
    for (const auto& value : mine) {
      each_tensor(value, [&](const at::Tensor& tensor) {
        const at::Tensor& target = targets.at(next++);
        if (target.defined()) target.copy_(tensor);
      });
    }
  });
  std::move(results.begin(), results.end(), std::back_inserter(stack));
  return true;
}

void Call::run_now(Stack& stack) const {
  queue_.drain();
  struct Written {
    at::Tensor cuda, cpu;
  };
  std::vector<Written> outputs;  // of an out variant: the kernel may resize them
  Stack mine;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_out = schema_.arguments()[i].is_out();
    mine.push_back(map_tensors(
        inputs_[i],
        [&](const at::Tensor& tensor) {
          if (!is_out || !tensor.is_cuda()) return shadow_or_same(tensor);
          outputs.push_back({tensor, at::empty({0}, tensor.options().device(at::kCPU))});
          return outputs.back().cpu;
        },
        at::kCPU));
  }
  substitute_generator(mine);
  op_.callBoxed(&mine);
  for (const auto& [cuda, cpu] : outputs) {
    if (cuda.sizes() != cpu.sizes()) cuda.resize_(cpu.sizes());
    if (cuda.numel() > 0) shadow_of(cuda).copy_(cpu);
  }
  const auto to_cuda = [&](const at::Tensor& tensor) {
    if (!tensor.is_cpu()) return tensor;
    auto result = empty_like_meta(tensor, device_);
    if (tensor.numel() > 0) shadow_of(result).copy_(tensor);
    return result;
  };
  for (size_t i = 0; i < schema_.returns().size(); ++i) {
    const int source = source_of_result(i);
    stack.push_back(source >= 0 ? inputs_[source] : map_tensors(mine[i], to_cuda, device_));
  }
}

}  // namespace cuemu_aten
