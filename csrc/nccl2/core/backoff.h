// Between looks at something that takes tens of microseconds to seconds: waits a little longer each time. For one thread.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "base/clock.h"

namespace pycomms {

// Waits a little longer each time: a connection takes tens of microseconds to seconds.
class Backoff {
 public:
  void pause() {
    if (++rounds_ < 64) {
      sched_yield();
      return;
    }
    const timespec nap{0, std::min<long>(rounds_ * kMicrosecond, kMillisecond)};
    nanosleep(&nap, nullptr);
  }

 private:
  int rounds_ = 0;
};

}  // namespace pycomms
