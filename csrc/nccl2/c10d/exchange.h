// One exchange of bytes in which each rank sends something to each, and receives something from each: nothing where a place is
// left empty. It holds pointers; whoever makes it keeps the tensors. Must not know: what the bytes are.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

class Exchange {
 public:
  explicit Exchange(int size) : to_(size), from_(size), to_bytes_(size), from_bytes_(size) {}

  void send(int rank, const at::Tensor& tensor) {
    to_[rank] = tensor.data_ptr();
    to_bytes_[rank] = tensor.nbytes();
  }
  void receive(int rank, const at::Tensor& tensor) {
    from_[rank] = tensor.data_ptr();
    from_bytes_[rank] = tensor.nbytes();
  }

  EngineResult run(const Engine& engine, CommHandle comm, StreamHandle stream) const {
    return engine.host.all_to_all_v(to_.data(), to_bytes_.data(), from_.data(), from_bytes_.data(), nccl_abi::kUint8,
                                    comm, stream);
  }

 private:
  c10::SmallVector<void*, 8> to_, from_;
  c10::SmallVector<size_t, 8> to_bytes_, from_bytes_;
};

}  // namespace pycomms::c10d_backend
