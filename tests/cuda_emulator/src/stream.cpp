#include "stream.h"

#include <pthread.h>
#include <signal.h>

#include <exception>
#include <utility>

#include "device.h"

namespace cuemu {
namespace {

// Signals are for the threads of the application.
std::thread start_masked(std::string name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name = std::move(name), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Stream*& Stream::running() {
  static thread_local Stream* stream = nullptr;
  return stream;
}

Stream::Stream(Device& owner, unsigned stream_flags, int stream_priority, uint64_t stream_number)
    : device(owner), flags(stream_flags), priority(stream_priority), number(stream_number), delays_(stream_number) {}

Stream::~Stream() {
  close();
  if (thread_.joinable()) thread_.join();
}

Point Stream::push(Op op, std::vector<Point> after) {
  Point mine;
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = start_masked("cuda" + std::to_string(device.index) + "-s" + std::to_string(number), [this] { main(); });
    }
    queue_.push_back({std::move(op), std::move(after)});
    mine = {timeline_, ++pushed_};
  }
  changed_.notify_all();
  return mine;
}

Point Stream::tail() const {
  const std::lock_guard lock(mutex_);
  return {timeline_, pushed_};
}

void Stream::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void Stream::release() {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
  }
  changed_.notify_all();
}

void Stream::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    held_ = false;
    if (!thread_.joinable()) finished_ = true;
  }
  changed_.notify_all();
}

bool Stream::has_finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

bool Stream::quiesce(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  if (!changed_.wait_until(lock, deadline, [&] { return running_.empty(); })) return false;
  std::thread ending = std::move(thread_);
  lock.unlock();
  if (ending.joinable()) ending.join();
  return true;
}

std::string Stream::describe() const {
  const std::lock_guard lock(mutex_);
  return "cuda:" + std::to_string(device.index) + " stream " + std::to_string(number) + ": " +
         (running_.empty() ? "idle" : "in '" + running_ + "'") + ", " + std::to_string(queue_.size()) + " queued" +
         (held_ ? ", held by a test" : "");
}

void Stream::main() {
  running() = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || (!queue_.empty() && !held_) || (queue_.empty() && closed_); });
    if (stopped_ || queue_.empty()) break;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    running_ = item.op.what.empty() ? "work" : item.op.what;
    lock.unlock();
    execute(item);
    item = {};  // what the work captured is released before anyone learns that it has run
    lock.lock();
    running_.clear();
    lock.unlock();
    timeline_->advance();
    changed_.notify_all();
    lock.lock();
  }
  finished_ = true;
}

void Stream::execute(Item& item) {
  for (const Point& point : item.after) {
    if (!wait_for_turn(point)) return;
  }
  if (device.has_failed() || !item.op.run) return;  // a failed device runs nothing more
  try {
    run_work(item.op);
  } catch (const Failure& failure) {
    device.set_failure({failure.code, item.op.what + (failure.text.empty() ? "" : ": " + failure.text)});
  } catch (const std::exception& error) {
    device.set_failure({cuda_abi::kLaunchFailure, item.op.what + ": " + error.what()});
  }
}

bool Stream::wait_for_turn(const Point& point) {
  constexpr auto kLook = std::chrono::milliseconds(50);
  while (!point.wait(std::chrono::steady_clock::now() + kLook)) {
    const std::lock_guard lock(mutex_);
    if (stopped_ || device.has_failed()) return false;
  }
  return true;
}

void Stream::run_work(const Op& op) {
  Stream& self = *running();
  if (op.is_work()) {
    self.delays_.pause();
    if (const auto injected = self.device.work.pass()) fail(*injected, "injected failure");
  }
  op.run();
}

}  // namespace cuemu
