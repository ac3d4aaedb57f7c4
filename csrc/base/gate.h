// A gate counts the callers that are inside something that is about to be torn down. Callers enter and leave; whoever
// tears down closes the gate and waits until the last caller has left. Entering costs two uncontended atomics.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace pycomms {

class Gate {
 public:
  // False when closed: the caller must not go on, and must not leave.
  bool try_enter() {
    const uint32_t before = state_.fetch_add(1, std::memory_order_acquire);
    if ((before & kClosed) == 0) return true;
    leave();
    return false;
  }

  void leave() {
    const uint32_t after = state_.fetch_sub(1, std::memory_order_release) - 1;
    if (after == kClosed) futex_wake_all(state_);
  }

  // Nobody enters any more. Callers that are inside stay until they leave.
  void close() { close_once(); }
  // False: it was closed already.
  bool close_once() { return (state_.fetch_or(kClosed, std::memory_order_acq_rel) & kClosed) == 0; }
  // Lets callers in again.
  void open() {
    state_.fetch_and(~kClosed, std::memory_order_acq_rel);
    futex_wake_all(state_);
  }
  // For whoever was not let in: until it is open, or the deadline.
  void wait_until_open(Deadline deadline) {
    for (;;) {
      const uint32_t state = state_.load(std::memory_order_acquire);
      if ((state & kClosed) == 0) return;
      const int64_t left = deadline.left();
      if (left == 0) return;
      futex_wait(state_, state, left);
    }
  }
  bool has_callers() const { return (state_.load(std::memory_order_acquire) & ~kClosed) != 0; }
  bool is_closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }

  // After close(): waits for the last caller; false when the deadline passed first.
  bool wait_until_empty(Deadline deadline) {
    for (;;) {
      const uint32_t state = state_.load(std::memory_order_acquire);
      if (state == kClosed) return true;
      const int64_t left = deadline.left();
      if (left == 0) return false;
      futex_wait(state_, state, left);
    }
  }

 private:
  static constexpr uint32_t kClosed = 1u << 31;
  std::atomic<uint32_t> state_{0};
};

// Holds a gate open for a scope; false when it was closed already.
class GateHolder {
 public:
  explicit GateHolder(Gate& gate) : gate_(gate), inside_(gate.try_enter()) {}
  ~GateHolder() {
    if (inside_) gate_.leave();
  }
  GateHolder(const GateHolder&) = delete;
  GateHolder& operator=(const GateHolder&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  Gate& gate_;
  const bool inside_;
};

}  // namespace pycomms
