// A one-sided window over a CPU tensor: tensors in, operations of core's HostWindow out. pycomms.rma.Window is its Python half.
//
// Any thread may call anything. A synchronous call runs on the calling thread, behind what was issued asynchronously before it;
// asynchronous ones run in order on a stream of the window. Must not know: Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "nccl2/c10d/tensor_op.h"
#include "nccl2/c10d/work.h"
#include "nccl2/core/host_window.h"

namespace pycomms::c10d_backend {

// Where in a window: an offset in elements, or a view of the local tensor, which stands for the same place on the peer.
using Place = std::variant<int64_t, at::Tensor>;

class TensorWindow final : public torch::CustomClassHolder {
 public:
  using WorkPtr = c10::intrusive_ptr<::c10d::Work>;

  // Which generation of its group a window belongs to, and the group's now.
  struct Generation {
    int64_t mine;
    std::shared_ptr<const std::atomic<int64_t>> now;
  };
  struct How {
    bool is_async = false;
    std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // none: that of the group
  };

  TensorWindow(std::shared_ptr<HostWindow> host, at::Tensor local, int slots, Generation generation);
  ~TensorWindow() override;

  const at::Tensor& local() const { return local_; }
  int rank() const { return host_->communicator().rank(); }
  int size() const { return host_->communicator().size(); }
  int slots() const { return slots_; }
  int64_t generation() const { return generation_.mine; }
  bool is_stale() const { return generation_.now->load(std::memory_order_acquire) != generation_.mine; }
  bool is_closed() const { return host_->is_closed(); }
  DataType type() const { return type_; }

  // Null for a synchronous call, all through.
  WorkPtr put(const at::Tensor& source, int peer, const Place& place, std::optional<int> signal, const How& how);
  WorkPtr get(const at::Tensor& destination, int peer, const Place& place, const How& how);
  WorkPtr put_v(const std::vector<at::Tensor>& sources, int peer, const std::vector<Place>& places,
                std::optional<int> signal, const How& how);
  WorkPtr get_v(const std::vector<at::Tensor>& destinations, int peer, const std::vector<Place>& places,
                const How& how);
  // `old` takes what was there; undefined: not wanted.
  WorkPtr update(const at::Tensor& source, int peer, const Place& place, hostccl::WindowOp op, const at::Tensor& old,
                 const How& how);
  // Of one element, whose bits lie where the pointers say.
  void update_one(const void* operand, int peer, int64_t offset, hostccl::WindowOp op, void* old, const How& how);
  void compare_swap(const void* expected, const void* desired, int peer, int64_t offset, void* old, const How& how);

  WorkPtr flush(std::optional<int> peer, const How& how);
  WorkPtr signal(int peer, int slot, int64_t value, hostccl::SignalChange change, const How& how);
  // Returns the place in `peers` of the one that was enough, in *which, unless it waits for all.
  WorkPtr wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count, size_t* which, const How& how);
  int64_t read_signal(int peer, int slot);
  // The rank that has died with the lock, or -1.
  int lock(int peer, bool shared, const How& how);
  void unlock(int peer, bool shared, const How& how);

  hostccl::WindowAttr attr(int peer) const;
  // A tensor over the peer's memory, which keeps it mapped for as long as it lives.
  at::Tensor remote(int peer);
  // Waits for all asynchronous operations of this window on this rank.
  void wait_for_queued(const How& how);
  void close(bool together, const How& how);

 private:
  using Pieces = c10::SmallVector<hostccl::WindowPiece, 4>;
  using Operation = std::function<Error(int64_t timeout_ns)>;
  struct Queue;

  int64_t timeout_of(const How& how) const;
  void check_generation(OpKind kind) const;
  // Run: at once, or on the stream. `quick`: it takes microseconds, so the GIL is kept and an asynchronous call runs at once, too.
  template <typename Run>
  WorkPtr run(OpKind kind, const How& how, bool quick, TensorList outputs, TensorList inputs, Run&& operation);
  WorkPtr enqueue(OpKind kind, const How& how, TensorList outputs, TensorList inputs, Operation operation);
  bool is_quick(int peer, size_t bytes) const;
  void check_tensor(OpKind kind, const char* name, const at::Tensor& tensor) const;
  void append_pieces(OpKind kind, const Place& place, const at::Tensor& other, Pieces* pieces) const;
  hostccl::WindowPiece one(OpKind kind, int64_t offset) const;
  uint64_t bytes_before(OpKind kind, int64_t offset) const;
  int checked_peer(OpKind kind, int peer) const;

  const std::shared_ptr<HostWindow> host_;  // shared with operations on the stream
  const at::Tensor local_;
  const DataType type_;
  const size_t item_;  // bytes of an element
  const int slots_;
  const Generation generation_;
  std::vector<hostccl::WindowReach> reach_;  // by rank; constant once it is made, as the next
  bool any_served_ = false;
  const std::shared_ptr<Queue> queue_;  // shared with operations on the stream
};

}  // namespace pycomms::c10d_backend
