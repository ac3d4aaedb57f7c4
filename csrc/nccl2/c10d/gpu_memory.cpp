#include "nccl2/c10d/gpu_memory.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "nccl2/c10d/python_hooks.h"
#include "nccl2/core/held_memory.h"
#include "nccl2/driver/cuda_scope.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {
namespace {

namespace py = pybind11;

const NcclApi& nccl_of_torch() { return loaded_nccl().value()->nccl; }

// Called by torch's allocator, under its lock. Null: out of memory; torch then frees what it caches and tries again.
void* allocate_segment(size_t bytes, int device, void*) {
  Result<const CudaApi*> cuda = loaded_cuda();
  if (!cuda.is_ok()) return nullptr;
  const OnDevice here(*cuda.value(), device);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  if (nccl_of_torch().mem_alloc(&memory, bytes) != nccl_abi::kSuccess) return nullptr;
  HeldMemory::instance().add(memory);
  return memory;
}

// Like cudaFree this waits for the device, because the memory may be in use by work that is still queued. What groups have
// registered is freed by the last of them to drop it: that cannot be done here, under the allocator's lock.
void free_segment(void* memory, size_t, int device, void*) {
  Result<const CudaApi*> cuda = loaded_cuda();
  if (!cuda.is_ok() || memory == nullptr) return;
  const OnDevice here(*cuda.value(), device);
  const RelaxedCapture relaxed;
  static_cast<void>(cuda.value()->device_synchronize());
  if (HeldMemory::instance().give_up(memory)) static_cast<void>(nccl_of_torch().mem_free(memory));
}

// torch.cuda.use_mem_pool for a scope.
class InPool {
 public:
  InPool(py::handle pool, c10::Device device)
      : scope_(py::module_::import("torch.cuda").attr("use_mem_pool")(pool, static_cast<int>(device.index()))) {
    scope_.attr("__enter__")();
  }
  void leave() { scope_.attr("__exit__")(py::none(), py::none(), py::none()); }

 private:
  py::object scope_;
};

}  // namespace

py::object nccl_allocator() {
  const bool has_gpu =
      c10::impl::hasDeviceGuardImpl(at::kCUDA) && c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0;
  TORCH_CHECK(has_gpu,
              "mem_allocator: it is for the memory of GPU tensors, and there is no GPU; allocate_tensor gives memory "
              "for CPU tensors");
  Result<const Engine*> nccl = loaded_nccl();
  TORCH_CHECK(nccl.is_ok(), "mem_allocator: ", nccl.status().message());
  static PyObject* const allocator = [] {
    const auto number = [](auto* function) { return reinterpret_cast<uintptr_t>(function); };
    return py::module_::import("torch._C")
        .attr("_cuda_customAllocator")(number(&allocate_segment), number(&free_segment))
        .release()
        .ptr();  // for good: torch's allocator keeps pointers to it
  }();
  return py::reinterpret_borrow<py::object>(allocator);
}

PoolId pool_id(const char* op, py::handle pool) {
  try {
    return pool.attr("id").cast<PoolId>();
  } catch (const py::error_already_set&) {
  } catch (const py::cast_error&) {
  }
  throw py::type_error(std::string(op) + ": pool must be a torch.cuda.MemPool, not " +
                       py::str(py::type::handle_of(pool).attr("__name__")).cast<std::string>());
}

std::shared_ptr<void> make_nccl_pool() {
  return keep_python_object(py::module_::import("torch.cuda").attr("MemPool")(nccl_allocator()).release().ptr());
}

PoolId pool_id(const std::shared_ptr<void>& pool) {
  return pool_id("allocate_tensor", static_cast<PyObject*>(pool.get()));
}

at::Tensor allocate_in(const std::shared_ptr<void>& pool, int64_t size, const at::TensorOptions& options) {
  InPool scope(static_cast<PyObject*>(pool.get()), options.device());
  try {
    at::Tensor tensor = at::empty({size}, options);
    scope.leave();
    return tensor;
  } catch (...) {
    scope.leave();
    throw;
  }
}

}  // namespace pycomms::c10d_backend
