// The life of a communicator: one enum, one table of legal transitions, and the first error, which is kept.
// Any thread; the state is one atomic word, so the hot path reads it with one load.
// Must not know: what is done in a state.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "nccl2/core/error.h"

namespace pycomms {

enum class LifeState : uint32_t { kNew, kConnecting, kReady, kSuspended, kFailed, kRevoked, kRegrouping, kClosed };

const char* to_string(LifeState state);
bool may_follow(LifeState from, LifeState to);

class Lifecycle {
 public:
  LifeState state() const { return state_.load(std::memory_order_acquire); }
  bool is_ready() const { return state() == LifeState::kReady; }
  bool has_ended() const { return has_ended(state()); }
  static bool has_ended(LifeState state) {
    return state == LifeState::kFailed || state == LifeState::kRevoked || state == LifeState::kClosed;
  }

  // Moves from `from` to `to`; false when the state is another one by now or the step is not legal.
  bool advance(LifeState from, LifeState to);

  // Enters kFailed, kRevoked or kClosed from whatever state allows it, with the error that explains it. Only the first
  // error is kept. True when this call made the step.
  bool end(LifeState to, Error why);

  // The first error; ok while there was none.
  Error first_error() const;

 private:
  std::atomic<LifeState> state_{LifeState::kNew};
  mutable std::mutex mutex_;
  Error first_error_;  // guarded by mutex_
};

}  // namespace pycomms
