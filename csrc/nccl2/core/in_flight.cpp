#include "nccl2/core/in_flight.h"

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
  if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) futex_wake_all(count_);
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
  for (;;) {
    const uint32_t seen = count_.load(std::memory_order_acquire);
    if (seen == 0) return true;
    if (deadline.passed() || (interrupted != nullptr && interrupted())) return false;
    futex_wait(count_, seen, std::min<int64_t>(deadline.left(), 50 * kMillisecond));
  }
}

}  // namespace pycomms
