// torch's allocator over the engine's: memory that the engine's members can reach without a copy. Any thread.
// Must not know: groups. An allocation may outlive every group; the engine is never unloaded.
#pragma once

#include <c10/core/Allocator.h>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

class SharedAllocator final : public c10::Allocator {
 public:
  explicit SharedAllocator(const NcclApi& nccl) : nccl_(nccl) { free_function() = nccl.mem_free; }

  c10::DataPtr allocate(size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) {
      TORCH_CHECK(nccl_.mem_alloc(&memory, bytes) == nccl_abi::kSuccess, "the engine has no ", bytes,
                  " bytes of shared memory left");
    }
    return {memory, memory, &release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  using Free = EngineResult (*)(void*);
  static Free& free_function() {
    static Free function = nullptr;
    return function;
  }
  static void release(void* memory) {
    if (memory != nullptr) static_cast<void>(free_function()(memory));
  }

  const NcclApi& nccl_;
};

}  // namespace pycomms::c10d_backend
