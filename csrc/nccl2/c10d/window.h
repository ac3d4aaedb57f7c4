// A one-sided window over a tensor: what both kinds have in common, those on the host (window_on_host.h), which can do all of
// it, and those on a GPU (window_on_device.h), which can do what NCCL can. pycomms.rma.Window is its Python half.
//
// Any thread may call anything. A synchronous call runs on the calling thread, behind what was issued asynchronously before it;
// asynchronous ones run in order on a stream of the window. Must not know: Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "nccl2/c10d/work.h"
#include "nccl2/core/communicator.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms::c10d_backend {

// Where in a window: an offset in elements, or a view of the local tensor, which stands for the same place on the peer.
using Place = std::variant<int64_t, at::Tensor>;

// "rank 1 of group 0: put: what". ranks: whom it is about.
Error window_error(const Communicator& group, ErrorKind kind, OpKind op, const std::string& what,
                   std::vector<int> ranks = {});

// What the caller calls an update of tensors, and one of an element.
inline OpKind kind_of_update(const at::Tensor& old) {
  return old.defined() ? OpKind::kGetAccumulate : OpKind::kAccumulate;
}
inline OpKind kind_of_update(hostccl::WindowOp op) {
  return op == hostccl::WindowOp::kReplace ? OpKind::kSwap : OpKind::kFetchAdd;
}

class TensorWindow : public torch::CustomClassHolder {
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

  TensorWindow(std::shared_ptr<Communicator> group, at::Tensor local, int slots, Generation generation);

  const at::Tensor& local() const { return local_; }
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  int slots() const { return slots_; }
  int64_t generation() const { return generation_.mine; }
  bool is_stale() const { return generation_.now->load(std::memory_order_acquire) != generation_.mine; }
  virtual bool is_closed() const = 0;
  DataType type() const { return type_; }

  // Null for a synchronous call, all through.
  virtual WorkPtr put(const at::Tensor& source, int peer, const Place& place, std::optional<int> signal,
                      const How& how) = 0;
  virtual WorkPtr get(const at::Tensor& destination, int peer, const Place& place, const How& how);
  virtual WorkPtr put_v(const std::vector<at::Tensor>& sources, int peer, const std::vector<Place>& places,
                        std::optional<int> signal, const How& how);
  virtual WorkPtr get_v(const std::vector<at::Tensor>& destinations, int peer, const std::vector<Place>& places,
                        const How& how);
  // `old` takes what was there; undefined: not wanted.
  virtual WorkPtr update(const at::Tensor& source, int peer, const Place& place, hostccl::WindowOp op,
                         const at::Tensor& old, const How& how);
  // Of one element, whose bits lie where the pointers say.
  virtual void update_one(const void* operand, int peer, int64_t offset, hostccl::WindowOp op, void* old,
                          const How& how);
  virtual void compare_swap(const void* expected, const void* desired, int peer, int64_t offset, void* old,
                            const How& how);

  virtual WorkPtr flush(std::optional<int> peer, const How& how);
  virtual WorkPtr signal(int peer, int slot, int64_t value, hostccl::SignalChange change, const How& how) = 0;
  // Returns the place in `peers` of the one that was enough, in *which, unless it waits for all.
  virtual WorkPtr wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count, size_t* which,
                              const How& how) = 0;
  virtual int64_t read_signal(int peer, int slot);
  // The rank that has died with the lock, or -1.
  virtual int lock(int peer, bool shared, const How& how);
  virtual void unlock(int peer, bool shared, const How& how);

  virtual hostccl::WindowAttr attr(int peer) const = 0;
  // A tensor over the peer's memory, which keeps it mapped for as long as it lives.
  virtual at::Tensor remote(int peer) = 0;
  // Waits for all asynchronous operations of this window on this rank, on behalf of `kind`.
  virtual void wait_for_queued(OpKind kind, const How& how);
  virtual void close(bool together, const How& how) = 0;

 protected:
  int64_t timeout_of(const How& how) const;
  // The window is of this generation of the group, and the tensor has the memory that the others reach.
  void check_current(OpKind kind) const;
  int checked_peer(OpKind kind, int peer) const;
  // name: what the caller calls the offset.
  uint64_t bytes_before(OpKind kind, const char* name, int64_t offset) const;
  // Of what so many bytes of a peer are as a tensor: as ours, if it has as many elements.
  std::vector<int64_t> shape_of(uint64_t bytes) const;

  const std::shared_ptr<Communicator> group_;  // shared: a window may outlive its group
  const at::Tensor local_;                     // ours alone: whoever gives his tensor another memory does not change it
  const DataType type_;
  const size_t item_;  // bytes of an element

 private:
  [[noreturn]] void cannot(const char* what) const;

  const int slots_;
  const Generation generation_;
  const void* const memory_;  // of the tensor when the window was made
};

}  // namespace pycomms::c10d_backend
