// Pauses between looks at something that takes tens of microseconds to seconds: each a little longer. For one thread.
#pragma once

#include <sched.h>

#include <algorithm>

#include "base/clock.h"

namespace pycomms {

class Backoff {
 public:
  void pause() {
    if (++rounds_ < 64) {
      sched_yield();
      return;
    }
    sleep_for(std::min(rounds_ * kMicrosecond, kMillisecond));
  }

 private:
  int rounds_ = 0;
};

}  // namespace pycomms
