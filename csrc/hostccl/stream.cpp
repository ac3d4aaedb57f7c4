#include "hostccl/stream.h"

#include <chrono>

#include "base/clock.h"
#include "base/thread.h"

namespace hostccl {

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    state_.stopping = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

pycomms::Status Stream::start_thread() {
  if (thread_.joinable()) return {};
  auto thread = pycomms::start_thread(name_.c_str(), [this] { main(); });
  if (!thread.is_ok()) return thread.status();
  thread_ = thread.take();
  return {};
}

pycomms::Status Stream::enqueue(std::unique_ptr<Task> task) {
  const bool small = task->is_small();
  const int64_t now = pycomms::now_ns();
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (pycomms::Status started = start_thread(); !started.is_ok()) return started;
    if (queue_.empty()) state_.oldest_ns = now;
    state_.latest_ns = now;
    state_.empty = false;
    state_.has_large |= !small;
    queue_.push_back(Entry{++pushed_, std::move(task)});
    wake = sleeping_ && (parked_ || !small);
    if (wake) sleeping_ = parked_ = false;
  }
  if (wake) arrived_.notify_one();
  return {};
}

pycomms::Status Stream::notify(CompletionFn fn, void* arg, uint64_t* position) {
  std::lock_guard lock(mutex_);
  if (!queue_.empty() && queue_.back().fn == nullptr) {
    queue_.back().fn = fn;
    queue_.back().arg = arg;
  } else {
    if (pycomms::Status started = start_thread(); !started.is_ok()) return started;
    queue_.push_back(Entry{++pushed_, nullptr, fn, arg});
    state_.empty = false;
    state_.has_large = true;  // what it waits for has ended or is under way
    if (std::exchange(sleeping_, false)) arrived_.notify_one();
    parked_ = false;
  }
  *position = queue_.back().position;
  return {};
}

bool Stream::help(uint64_t position) {
  std::unique_lock run(run_mutex_, std::try_to_lock);
  return run.owns_lock() && run_front(run, position, true);
}

bool Stream::run_front(std::unique_lock<std::mutex>& run, uint64_t last, bool interruptible) {
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    if (queue_.empty() || queue_.front().position > last) return false;
    entry = std::move(queue_.front());
    queue_.pop_front();
    state_.empty = queue_.empty();
    state_.has_large &= !state_.empty;
    state_.helped |= interruptible;
  }
  if (entry.task) {
    const Result result = entry.task->run(interruptible);
    if (result_ == nccl_abi::kSuccess) result_ = result;
    entry.task.reset();
  }
  if (entry.fn == nullptr) return true;
  const Result result = std::exchange(result_, nccl_abi::kSuccess);
  run.unlock();  // whoever is called may come back to this stream
  entry.fn(entry.arg, result);
  return true;
}

// --- the thread

void Stream::sleep(std::unique_lock<std::mutex>& lock, int64_t ns) {
  state_.helped = false;
  sleeping_ = true;
  parked_ = ns > kGlance;
  arrived_.wait_for(lock, std::chrono::nanoseconds(ns));
  sleeping_ = parked_ = false;
}

void Stream::main() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      while (const int64_t ns = leisure(state_, pycomms::now_ns())) sleep(lock, ns);
      if (queue_.empty() && state_.stopping) return;
    }
    std::unique_lock run(run_mutex_);
    run_front(run, UINT64_MAX, false);
  }
}

}  // namespace hostccl
