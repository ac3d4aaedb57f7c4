// The operations that the engine still works on. It keeps each alive until the engine's callback has come, and can end
// them all at once. Any thread. Must not know: engines, communicators.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/futex.h"
#include "nccl2/core/error.h"

namespace pycomms {

class OpState;

class InFlight {
 public:
  void add(std::shared_ptr<OpState> state);
  // Gives back the reference that add() took. settle() follows once the operation's continuations have run, so that
  // whoever waits for an empty set finds their effects.
  std::shared_ptr<OpState> remove(OpState& state);
  void settle();
  // Whether continuations of an operation that has ended are still running.
  bool is_settling();

  // Ends all of them as cancelled. The engine may still use their memory: they stay here until remove().
  void cancel_all(const Error& why);

  bool is_empty() const { return count_.load(std::memory_order_seq_cst) == 0; }
  bool wait_until_empty(Deadline deadline, bool (*interrupted)());

 private:
  std::atomic<uint32_t> count_{0};    // of the entries below, plus those that settle; waiters sleep on it
  std::atomic<uint32_t> waiters_{0};  // a wake-up costs a system call
  std::mutex mutex_;
  std::vector<std::shared_ptr<OpState>> entries_;  // guarded by mutex_
};

}  // namespace pycomms
