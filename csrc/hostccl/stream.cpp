#include "hostccl/stream.h"

#include <chrono>

#include "base/thread.h"

namespace hostccl {

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

pycomms::Status Stream::enqueue(std::unique_ptr<Task> task) { return push(Entry{std::move(task)}); }

pycomms::Status Stream::notify(CompletionFn fn, void* arg) { return push(Entry{nullptr, fn, arg}); }

pycomms::Status Stream::push(Entry entry) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      auto thread = pycomms::start_thread(name_.c_str(), [this] { main(); });
      if (!thread.is_ok()) return thread.status();
      thread_ = thread.take();
    }
    queue_.push_back(std::move(entry));
    wake = std::exchange(waiting_, false);
  }
  if (wake) arrived_.notify_one();
  return {};
}

bool Stream::help() {
  std::unique_lock run(run_mutex_, std::try_to_lock);
  return run.owns_lock() && run_front(run, true);
}

bool Stream::run_front(std::unique_lock<std::mutex>& run, bool interruptible) {
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
    entry = std::move(queue_.front());
    queue_.pop_front();
  }
  if (entry.task) {
    const Result result = entry.task->run(interruptible);
    if (result_ == nccl_abi::kSuccess) result_ = result;
    return true;
  }
  const Result result = std::exchange(result_, nccl_abi::kSuccess);
  run.unlock();  // whoever is called may come back to this stream
  entry.fn(entry.arg, result);
  return true;
}

void Stream::main() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      while (queue_.empty() && !stopping_) {
        waiting_ = true;
        arrived_.wait_for(lock, std::chrono::seconds(1));
      }
      waiting_ = false;
      if (queue_.empty()) return;
    }
    std::unique_lock run(run_mutex_);
    run_front(run, false);
  }
}

}  // namespace hostccl
