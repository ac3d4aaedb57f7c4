// The memory of a window on the CPU: where it lies so that ranks of the same host can map it, and what torch has put there.
// Any thread. Must not know: groups.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// Where the tensor's memory is, for window_create. Memory that torch's own CPU allocator made is moved first, in place, to one that
// can be mapped: all tensors of its storage go on with it, and it can no longer be resized. What others own (numpy, a
// blob) stays where it is, and is served.
// Returns what keeps the memory that cannot be mapped, beside the tensor: torch may exchange it under a tensor, and free the old
// one. Throws when it is read-only.
[[nodiscard]] std::shared_ptr<void> make_reachable(const at::Tensor& tensor, c10::Allocator& shared,
                                                   hostccl::WindowOptions* options);

}  // namespace pycomms::c10d_backend
