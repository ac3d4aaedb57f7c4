#include "nccl2/core/supervisor.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"
#include "nccl2/core/reaper.h"

namespace pycomms {
namespace {

constexpr int64_t kLookEvery = 200 * kMicrosecond;
constexpr int64_t kIdle = 10 * kSecond;

}  // namespace

Supervisor& Supervisor::instance() { return per_process<Supervisor>(); }

Status Supervisor::add(const std::shared_ptr<Supervised>& one) {
  const std::lock_guard lock(mutex_);
  if (!has_thread_) {
    auto thread = start_thread("pycomms-watch", [this] { main(); });
    if (!thread.is_ok()) return thread.status();
    thread.take().detach();  // its owner is never destroyed
    has_thread_ = true;
  }
  std::erase_if(all_, [](const std::weak_ptr<Supervised>& other) { return other.expired(); });
  all_.push_back(one);
  return {};
}

void Supervisor::wake() {
  if (idle_.load(std::memory_order_seq_cst) == 0) return;
  idle_.store(0, std::memory_order_seq_cst);
  futex_wake_all(idle_);
}

bool Supervisor::look() {
  std::vector<std::shared_ptr<Supervised>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : all_) {
      if (auto alive = one.lock()) all.push_back(std::move(alive));
    }
  }
  Reaper::instance().retry();
  const Reaper::Together lost(Reaper::Wait::kNo);  // those that this look finds lost
  bool busy = false;
  const int64_t now = now_ns();
  for (const auto& one : all) busy |= one->supervise(now);
  return busy;
}

void Supervisor::main() {
  for (;;) {
    if (look()) {
      sleep_for(kLookEvery);
      continue;
    }
    idle_.store(1, std::memory_order_seq_cst);
    if (!look()) futex_wait(idle_, 1, kIdle);  // what began meanwhile may not have seen that we sleep
    idle_.store(0, std::memory_order_seq_cst);
  }
}

}  // namespace pycomms
