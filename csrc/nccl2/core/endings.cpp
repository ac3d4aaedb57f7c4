#include "nccl2/core/endings.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"

namespace pycomms {
namespace {

using Count = std::atomic<uint32_t>;

// How many run. A forked child has a count of its own: the parent's threads are not here.
std::shared_ptr<Count> running() {
  static std::mutex mutex;
  static auto* count =
      new std::shared_ptr<Count>(std::make_shared<Count>(0));  // never destroyed: threads may outlive us
  static uint32_t generation = fork_generation();
  const std::lock_guard lock(mutex);
  if (generation != fork_generation()) {
    *count = std::make_shared<Count>(0);
    generation = fork_generation();
  }
  return *count;
}

}  // namespace

void begin_ending(std::function<void()> call) {
  const auto count = running();
  count->fetch_add(1, std::memory_order_relaxed);
  const auto end = [count] {
    count->fetch_sub(1, std::memory_order_release);
    futex_wake_all(*count);
  };
  auto thread = start_thread("pycomms-end", [call = std::move(call), end] {
    call();
    end();
  });
  if (thread.is_ok()) {
    thread.take().detach();
  } else {
    end();
  }
}

bool wait_for_endings(Deadline deadline) {
  const auto count = running();
  for (;;) {
    const uint32_t left = count->load(std::memory_order_acquire);
    if (left == 0) return true;
    if (deadline.passed()) return false;
    futex_wait(*count, left, deadline.left());
  }
}

}  // namespace pycomms
