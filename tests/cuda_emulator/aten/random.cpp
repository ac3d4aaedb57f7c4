#include "aten/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace cuemu_aten {
namespace {

// The finalizer of SplitMix64: neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

at::Generator generator_for_one_op(const std::optional<at::Generator>& cuda, c10::Device device, bool is_capturing) {
  constexpr uint64_t kStep = 4;  // offsets of the CUDA generator are multiples of four
  static std::atomic<uint64_t> captured{0};
  at::Generator generator = cuda ? *cuda : at::detail::getCUDAHooks().getDefaultGenerator(device.index());
  const std::lock_guard lock(generator.mutex());
  uint64_t offset = 0;
  if (is_capturing) {
    // The counter may not be touched now. Far from all of its values, and another for each op.
    offset = ~captured.fetch_add(kStep);
  } else {
    offset = generator.get_offset();
    generator.set_offset(offset + kStep);
  }
  return at::detail::createCPUGenerator(mix(mix(generator.current_seed()) + offset));
}

}  // namespace cuemu_aten
