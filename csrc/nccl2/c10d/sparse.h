// Sum of sparse COO tensors over a group: gather everybody's indices and values, then coalesce them in rank order, so that
// all ranks get the same bits. The sizes are known only while it runs, so it cannot be queued as one engine operation: it
// has a communicator of its own, connected at first use, and a thread for operations that nobody waits for.
// Operations run in the order in which they were given. Must not know: Work, the backend.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "nccl2/core/communicator.h"

namespace pycomms::c10d_backend {

class SparseLane {
 public:
  explicit SparseLane(std::unique_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
  ~SparseLane();
  SparseLane(const SparseLane&) = delete;
  SparseLane& operator=(const SparseLane&) = delete;

  // In place. Throws for arguments that no rank could use; the Error is what went wrong between the ranks.
  Error run(at::Tensor tensor, int64_t timeout);
  // The same on the lane's thread; `done` is called there.
  void queue(at::Tensor tensor, int64_t timeout, std::function<void(Error)> done);

  // Ends what is running and what is queued with an error.
  void abort(const std::string& why) { communicator_->abort(why); }

 private:
  struct Task {
    at::Tensor tensor;
    int64_t timeout;
    std::function<void(Error)> done;
  };
  void serve();
  Error all_reduce(const at::Tensor& tensor, int64_t timeout);
  Error gather_shapes(const at::Tensor& mine, int64_t timeout, std::vector<int64_t>* nnz);
  Error gather(const at::Tensor& mine, const std::vector<int64_t>& rows, int64_t timeout, at::Tensor* all);
  Error all_reduce_caught(const at::Tensor& tensor, int64_t timeout);
  Error make_error(ErrorKind kind, const std::string& what, std::vector<int> ranks = {}) const;

  const std::unique_ptr<Communicator> communicator_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool busy_ = false;       // guarded by mutex_: somebody runs an operation
  bool stopping_ = false;   // guarded by mutex_
  std::thread thread_;      // guarded by mutex_ until the destructor
};

}  // namespace pycomms::c10d_backend
