// A window over a CPU tensor: all that a window can do, by way of core's HostWindow.
//
// Any thread may call anything. A synchronous call runs on the calling thread, behind what was issued asynchronously before it;
// asynchronous ones run in order on a stream of the window. Must not know: Python.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nccl2/c10d/window.h"
#include "nccl2/c10d/window_queue.h"
#include "nccl2/core/host_window.h"

namespace pycomms::c10d_backend {

class WindowOnHost final : public TensorWindow {
 public:
  // memory: see make_reachable.
  WindowOnHost(std::shared_ptr<HostWindow> host, std::shared_ptr<void> memory, at::Tensor local, int slots,
               Generation generation);
  ~WindowOnHost() override;

  bool is_closed() const override { return host_->is_closed(); }

  WorkPtr put(const at::Tensor& source, int peer, const Place& place, std::optional<int> signal,
              const How& how) override;
  WorkPtr get(const at::Tensor& destination, int peer, const Place& place, const How& how) override;
  WorkPtr put_v(const std::vector<at::Tensor>& sources, int peer, const std::vector<Place>& places,
                std::optional<int> signal, const How& how) override;
  WorkPtr get_v(const std::vector<at::Tensor>& destinations, int peer, const std::vector<Place>& places,
                const How& how) override;
  WorkPtr update(const at::Tensor& source, int peer, const Place& place, hostccl::WindowOp op, const at::Tensor& old,
                 const How& how) override;
  void update_one(const void* operand, int peer, int64_t offset, hostccl::WindowOp op, void* old,
                  const How& how) override;
  void compare_swap(const void* expected, const void* desired, int peer, int64_t offset, void* old,
                    const How& how) override;

  WorkPtr flush(std::optional<int> peer, const How& how) override;
  WorkPtr signal(int peer, int slot, int64_t value, hostccl::SignalChange change, const How& how) override;
  WorkPtr wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count, size_t* which,
                      const How& how) override;
  int64_t read_signal(int peer, int slot) override;
  int lock(int peer, bool shared, const How& how) override;
  void unlock(int peer, bool shared, const How& how) override;

  hostccl::WindowAttr attr(int peer) const override;
  at::Tensor remote(int peer) override;
  void wait_for_queued(OpKind kind, const How& how) override;
  void close(bool together, const How& how) override;

 private:
  using Pieces = c10::SmallVector<hostccl::WindowPiece, 4>;
  using Operation = std::function<Error(int64_t timeout_ns)>;

  // Run: at once, or on the stream. `quick`: it takes microseconds, so the GIL is kept and an asynchronous call runs at once, too.
  template <typename Run>
  WorkPtr run(OpKind kind, const How& how, bool quick, TensorList outputs, TensorList inputs, Run&& operation);
  WorkPtr enqueue(OpKind kind, const How& how, TensorList outputs, TensorList inputs, Operation operation);
  // window_on_host_several.cpp: put_v and get_v.
  struct Several;
  Several gather(OpKind kind, const char* name, const std::vector<at::Tensor>& tensors, int peer,
                 const std::vector<Place>& places) const;
  WorkPtr run_several(OpKind kind, const How& how, bool quick, TensorList outputs, TensorList inputs,
                      Operation operation);
  hostccl::WindowAttr attr_for(OpKind kind, int peer) const;
  bool is_quick(int peer, size_t bytes) const;
  void check_tensor(OpKind kind, const char* name, const at::Tensor& tensor) const;
  void append_pieces(OpKind kind, const char* name, const Place& place, const at::Tensor& other, Pieces* pieces) const;
  hostccl::WindowPiece one(OpKind kind, int64_t offset) const;

  const std::shared_ptr<void> memory_;       // shared with the tensor: outlives what is inside the host's window
  const std::shared_ptr<HostWindow> host_;   // shared with operations on the stream
  std::vector<hostccl::WindowReach> reach_;  // by rank; constant once it is made, as the next
  bool any_served_ = false;
  const std::shared_ptr<WindowQueue> queue_;  // shared with operations on the stream
};

}  // namespace pycomms::c10d_backend
