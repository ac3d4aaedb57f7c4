// Random numbers. CUDA's generators are counters that are read when an op is launched, so what an op draws depends on the
// program's order alone. Here each random op gets a CPU generator of its own, seeded from the CUDA generator's seed and
// counter at launch: ops on several streams share nothing. A graph keeps the generator of each of its ops, which therefore
// draws anew with every launch. Reads and advances the CUDA generator under its mutex.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace cuemu_aten {

at::Generator generator_for_one_op(const std::optional<at::Generator>& cuda, c10::Device device, bool is_capturing);

}  // namespace cuemu_aten
