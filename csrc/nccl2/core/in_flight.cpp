#include "nccl2/core/in_flight.h"

#include "nccl2/core/interrupt.h"
#include "nccl2/core/op_state.h"

namespace pycomms {

void InFlight::add(std::shared_ptr<OpState> state) {
  const std::lock_guard lock(mutex_);
  state->in_flight_slot = entries_.size();
  entries_.push_back(std::move(state));
  count_.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<OpState> InFlight::remove(OpState& state) {
  std::shared_ptr<OpState> mine;
  {
    const std::lock_guard lock(mutex_);
    const size_t slot = state.in_flight_slot;
    mine = std::move(entries_[slot]);
    if (slot + 1 != entries_.size()) {
      entries_[slot] = std::move(entries_.back());
      entries_[slot]->in_flight_slot = slot;
    }
    entries_.pop_back();
  }
  return mine;
}

void InFlight::settle() {
  const bool last = count_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (last && waiters_.load(std::memory_order_seq_cst) != 0) futex_wake_all(count_);
}

bool InFlight::is_settling() {
  const std::lock_guard lock(mutex_);
  return count_.load(std::memory_order_relaxed) > entries_.size();
}

void InFlight::cancel_all(const Error& why) {
  std::vector<std::shared_ptr<OpState>> all;
  {
    const std::lock_guard lock(mutex_);
    all = entries_;
  }
  for (const auto& state : all) state->end(Outcome::kCancelled, why);
}

bool InFlight::wait_until_empty(Deadline deadline, bool (*interrupted)()) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool empty = false;
  for (;;) {
    const uint32_t seen = count_.load(std::memory_order_seq_cst);
    empty = seen == 0;
    if (empty || deadline.passed() || (interrupted != nullptr && interrupted())) break;
    futex_wait(count_, seen, std::min(deadline.left(), kInterruptPoll));
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return empty;
}

}  // namespace pycomms
