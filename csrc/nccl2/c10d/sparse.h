// Sum of sparse COO tensors over a group: gather everybody's indices and values, then coalesce them in rank order, so that
// all ranks get the same bits. The sizes are known only while it runs, so it cannot be queued as one engine operation: it
// has a communicator of its own, connected at first use, and a thread for operations that nobody waits for.
// Operations run in the order in which they were given. The two communicators fail together, with the first error of
// either. Must not know: Work, the backend.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "nccl2/c10d/abort_hooks.h"
#include "nccl2/core/communicator.h"

namespace pycomms::c10d_backend {

class SparseLane {
 public:
  // `hooks` run when `group` fails.
  SparseLane(std::shared_ptr<Communicator> group, std::unique_ptr<Communicator> own, std::shared_ptr<AbortHooks> hooks);
  ~SparseLane();
  SparseLane(const SparseLane&) = delete;
  SparseLane& operator=(const SparseLane&) = delete;

  // In place.
  Error run(at::Tensor tensor, int64_t timeout);
  // The same on the lane's thread; `done` is called there, or here if there is no thread to be had.
  void queue(at::Tensor tensor, int64_t timeout, std::function<void(Error)> done);

  // Ends what is running and what is queued with an error.
  void abort(const std::string& why) { own_->abort(why); }
  void pause(const std::string& why) { own_->pause(why); }
  void end_pause() { own_->end_pause(); }
  // When nothing is running: others may still be in the last operation.
  void shutdown() { own_->shutdown(); }
  void leave(const std::string& why) { own_->leave(why); }

 private:
  struct Task {
    at::Tensor tensor;
    int64_t timeout;
    std::function<void(Error)> done;
  };
  void serve();
  Status start_thread_if_none();
  Error all_reduce_or_fail(const at::Tensor& tensor, int64_t timeout);
  Error all_reduce(const at::Tensor& tensor, int64_t timeout);
  template <typename Call>
  Error step(int64_t timeout, Call&& call);
  Error gather_shapes(const at::Tensor& mine, int64_t timeout, std::vector<int64_t>* nnz);
  Error gather(const at::Tensor& mine, const std::vector<int64_t>& rows, int64_t timeout, at::Tensor* all);
  Error make_error(ErrorKind kind, const std::string& what, std::vector<int> ranks = {}) const;

  const std::shared_ptr<Communicator> group_;
  const std::shared_ptr<Communicator> own_;  // shared with the hook
  const std::shared_ptr<AbortHooks> hooks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool busy_ = false;       // guarded by mutex_: somebody runs an operation
  bool stopping_ = false;   // guarded by mutex_
  std::thread thread_;      // guarded by mutex_ until the destructor
};

}  // namespace pycomms::c10d_backend
