#include "hostccl/stream.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/thread.h"

namespace hostccl {
namespace {

constexpr int64_t kQuiet =
    50 * pycomms::kMicrosecond;                      // nothing came and nobody helped: the issuer does something else
constexpr int64_t kLongest = pycomms::kMillisecond;  // that small work is left alone while more is issued
constexpr int64_t kGlance = 100 * pycomms::kMicrosecond;  // the thread looks again so soon after it found traffic

}  // namespace

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
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
    if (queue_.empty()) oldest_ns_ = now;
    latest_ns_ = now;
    hurry_ |= !small;
    queue_.push_back(Entry{std::move(task)});
    wake = sleeping_ && (parked_ || !small);
    if (wake) sleeping_ = parked_ = false;
  }
  if (wake) arrived_.notify_one();
  return {};
}

pycomms::Status Stream::notify(CompletionFn fn, void* arg) {
  std::lock_guard lock(mutex_);
  if (!queue_.empty() && queue_.back().fn == nullptr) {
    queue_.back().fn = fn;
    queue_.back().arg = arg;
    return {};
  }
  if (pycomms::Status started = start_thread(); !started.is_ok()) return started;
  queue_.push_back(Entry{nullptr, fn, arg});
  hurry_ = true;  // what it waits for has ended or is under way
  if (std::exchange(sleeping_, false)) arrived_.notify_one();
  parked_ = false;
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
    if (queue_.empty()) hurry_ = false;
    helped_ |= interruptible;
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

int64_t Stream::leisure(int64_t now) {
  if (stopping_ || hurry_) return 0;
  const bool helped = std::exchange(helped_, false);
  if (queue_.empty()) return helped || latest_ns_ + kGlance > now ? kGlance : pycomms::kSecond;
  if (helped) return kQuiet;
  return std::max<int64_t>(std::min(latest_ns_ + kQuiet, oldest_ns_ + kLongest) - now, 0);
}

void Stream::sleep(std::unique_lock<std::mutex>& lock, int64_t ns) {
  sleeping_ = true;
  parked_ = ns > kGlance;
  arrived_.wait_for(lock, std::chrono::nanoseconds(ns));
  sleeping_ = parked_ = false;
}

void Stream::main() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      while (const int64_t ns = leisure(pycomms::now_ns())) sleep(lock, ns);
      if (queue_.empty() && stopping_) return;
    }
    std::unique_lock run(run_mutex_);
    run_front(run, false);
  }
}

}  // namespace hostccl
