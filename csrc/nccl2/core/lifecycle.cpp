#include "nccl2/core/lifecycle.h"

#include <array>

namespace pycomms {
namespace {

constexpr uint32_t bit(LifeState state) { return 1u << static_cast<uint32_t>(state); }

// For each state, the states that may follow.
constexpr std::array<uint32_t, 8> kNext = {
    /* kNew        */ bit(LifeState::kConnecting) | bit(LifeState::kFailed) | bit(LifeState::kClosed),
    /* kConnecting */ bit(LifeState::kReady) | bit(LifeState::kFailed) | bit(LifeState::kClosed),
    /* kReady      */ bit(LifeState::kSuspended) | bit(LifeState::kFailed) | bit(LifeState::kRevoked) |
        bit(LifeState::kRegrouping) | bit(LifeState::kClosed),
    /* kSuspended  */ bit(LifeState::kReady) | bit(LifeState::kFailed) | bit(LifeState::kRevoked) |
        bit(LifeState::kClosed),
    /* kFailed     */ bit(LifeState::kClosed),
    /* kRevoked    */ bit(LifeState::kClosed),
    /* kRegrouping */ bit(LifeState::kReady) | bit(LifeState::kFailed) | bit(LifeState::kRevoked) |
        bit(LifeState::kClosed),
    /* kClosed     */ 0,
};

}  // namespace

const char* to_string(LifeState state) {
  switch (state) {
    case LifeState::kNew:
      return "new";
    case LifeState::kConnecting:
      return "connecting";
    case LifeState::kReady:
      return "ready";
    case LifeState::kSuspended:
      return "suspended";
    case LifeState::kFailed:
      return "failed";
    case LifeState::kRevoked:
      return "revoked";
    case LifeState::kRegrouping:
      return "regrouping";
    case LifeState::kClosed:
      return "closed";
  }
  return "?";
}

bool may_follow(LifeState from, LifeState to) { return (kNext[static_cast<uint32_t>(from)] & bit(to)) != 0; }

bool Lifecycle::advance(LifeState from, LifeState to) {
  return may_follow(from, to) && state_.compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

bool Lifecycle::end(LifeState to, Error why) {
  const std::lock_guard lock(mutex_);
  LifeState from = state();
  do {
    if (!may_follow(from, to)) return false;
    // The error is in place before the state that points to it can be seen.
    if (!first_error_) first_error_ = std::move(why);
  } while (!state_.compare_exchange_weak(from, to, std::memory_order_acq_rel));
  return true;
}

Error Lifecycle::first_error() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

}  // namespace pycomms
