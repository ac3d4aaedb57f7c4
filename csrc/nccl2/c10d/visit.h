// Whoever calls a backend is inside it for as long as the call takes. A regroup exchanges what calls use, its communicators, rank
// and size, while nobody is: it closes the gate, and whoever comes then waits until it is open again.
// Any thread; a call within a call on the same thread is part of it. Must not know: what is exchanged.
#pragma once

#include <utility>

#include "base/fork.h"
#include "base/gate.h"

namespace pycomms::c10d_backend {

class VisitorsGate : public Gate {
 public:
  // Whoever has closed it is not there in a forked child.
  bool was_forked() const { return fork_generation() != fork_generation_; }

 private:
  const uint32_t fork_generation_ = fork_generation();
};

class Visit {
 public:
  explicit Visit(VisitorsGate& gate) : gate_(gate), outer_(std::exchange(inside_of(), &gate)) {
    if (outer_ == &gate_) return;
    while (!gate_.try_enter()) {
      if (gate_.was_forked()) gate_.open();
      gate_.wait_until_open(Deadline::after(kAskAgain));
    }
  }
  ~Visit() {
    inside_of() = outer_;
    if (outer_ != &gate_) gate_.leave();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  static constexpr int64_t kAskAgain = 1 * kSecond;  // whoever has closed it has a deadline
  static VisitorsGate*& inside_of() {
    thread_local VisitorsGate* gate = nullptr;
    return gate;
  }

  VisitorsGate& gate_;
  VisitorsGate* const outer_;
};

}  // namespace pycomms::c10d_backend
