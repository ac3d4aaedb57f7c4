// NCCL's own device memory, which needs no copy on its way to other ranks, as an allocator for torch's memory pools.
// With the GIL. Must not know: groups.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>

#include "nccl2/core/device_segments.h"

namespace pycomms::c10d_backend {

// For torch.cuda.MemPool(…): one for the process. Throws when there is no GPU or no NCCL.
pybind11::object nccl_allocator();
// Of a torch.cuda.MemPool; a TypeError when it is none.
PoolId pool_id(const char* op, pybind11::handle pool);

// A torch.cuda.MemPool over nccl_allocator().
std::shared_ptr<void> make_nccl_pool();
PoolId pool_id(const std::shared_ptr<void>& pool);
at::Tensor allocate_in(const std::shared_ptr<void>& pool, int64_t size, const at::TensorOptions& options);

}  // namespace pycomms::c10d_backend
