// A window over a tensor on a GPU: put with a signal, signal, and waiting for signals, as NCCL has them since 2.29. They are
// operations of the group on its streams, and fail with it. A peer's memory is mapped where NCCL gives a pointer to it.
//
// Threads: as the group's operations. Must not know: Python.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/device_group.h"
#include "nccl2/c10d/window.h"

namespace pycomms::c10d_backend {

class WindowOnDevice final : public TensorWindow {
 public:
  static constexpr int kSlots = 1;  // NCCL takes no other slot than the first

  // For tensors there; throws when there is no NCCL that has windows.
  static std::shared_ptr<DeviceGroup> group_for(Backend& backend, at::Device device);
  // Collective; the memory is `bytes[rank]` large on each rank.
  static c10::intrusive_ptr<TensorWindow> make(Backend& backend, std::shared_ptr<DeviceGroup> device,
                                               const at::Tensor& memory, std::vector<uint64_t> bytes,
                                               Generation generation);

  WindowOnDevice(c10::intrusive_ptr<Backend> backend, std::shared_ptr<DeviceGroup> device, at::Tensor local,
                 std::vector<uint64_t> bytes, Generation generation);
  // Leaves one that is open to NCCL, which would wait for the others: whoever wants it deregistered calls close().
  ~WindowOnDevice() override = default;

  bool is_closed() const override { return handle_.load(std::memory_order_acquire) == nullptr; }

  WorkPtr put(const at::Tensor& source, int peer, const Place& place, std::optional<int> signal,
              const How& how) override;
  WorkPtr get(const at::Tensor& destination, int peer, const Place& place, const How& how) override;
  WorkPtr signal(int peer, int slot, int64_t value, hostccl::SignalChange change, const How& how) override;
  WorkPtr wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count, size_t* which,
                      const How& how) override;
  hostccl::WindowAttr attr(int peer) const override;
  at::Tensor remote(int peer) override;
  void close(bool together, const How& how) override;

 private:
  nccl_abi::WindowHandle open_handle(OpKind kind) const;
  void* pointer_to(int peer) const;
  hostccl::WindowPiece piece_of(OpKind kind, const Place& place, const at::Tensor& other, int peer) const;

  const c10::intrusive_ptr<Backend> backend_;
  const std::shared_ptr<DeviceGroup> device_;
  const std::vector<uint64_t> bytes_;  // of each rank
  std::atomic<nccl_abi::WindowHandle> handle_{nullptr};
};

}  // namespace pycomms::c10d_backend
